package warc

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"sync"
)

// An encoder of deflate streams (RFC 1951) for headers of records, heads of
// messages, and what else is short. A general one makes Huffman codes for each
// block; with so little text this takes several times longer than all the rest.
// Here the codes are made beforehand, for what such texts have in common.

// maxChunk is how many octets can be in a block: so far back matches reach
// (§2).
const maxChunk = 32 << 10

// maxStored is how many octets can be in a stored block (§3.2.4).
const maxStored = 1<<16 - 1

// minDescribed is the size from which on it pays to describe a code of our own,
// in some 35 octets, instead of using the fixed one.
const minDescribed = 200

// minMatch and maxMatch bound what is copied from before. Shorter matches
// hardly pay; one octet more would make an exception (§3.2.5).
const (
	minMatch = 4
	maxMatch = 257
)

// endOfBlock is the symbol between those of the octets and those of the lengths
// (§3.2.5).
const endOfBlock = 256

// A bitWriter appends to b, the lowest bit of each octet first (§3.1.1).
type bitWriter struct {
	b    []byte
	bits uint64 // that are not yet in b
	n    uint   // how many of them, less than 32
}

// put writes the lowest n bits of v, at most 32. The others must be 0.
func (w *bitWriter) put(v uint32, n uint) {
	w.bits |= uint64(v) << w.n
	if w.n += n; w.n >= 32 {
		w.b = binary.LittleEndian.AppendUint32(w.b, uint32(w.bits))
		w.bits >>= 32
		w.n -= 32
	}
}

// align fills up the last octet.
func (w *bitWriter) align() {
	for ; w.n > 0; w.n -= min(w.n, 8) {
		w.b = append(w.b, byte(w.bits))
		w.bits >>= 8
	}
}

func (w *bitWriter) putLast(last bool) {
	if last {
		w.put(1, 1)
	} else {
		w.put(0, 1)
	}
}

// stored starts a stored block, whose n octets, at most maxStored, come next
// (§3.2.4). One that has none, and is not the last, makes the next block start
// with an octet.
func (w *bitWriter) stored(n int, last bool) {
	w.putLast(last)
	w.put(0, 2)
	w.align()
	w.b = binary.LittleEndian.AppendUint16(w.b, uint16(n))
	w.b = binary.LittleEndian.AppendUint16(w.b, ^uint16(n))
}

// blocks writes any number of octets, as blocks that are not the last one.
func (w *bitWriter) blocks(src []byte, c *coding) {
	for len(src) > maxChunk {
		w.block(src[:maxChunk], c, false)
		src = src[maxChunk:]
	}
	w.block(src, c, false)
}

// block writes at most maxChunk octets as a block: with c, or with the fixed
// coding, or stored, when c has not all of the octets or makes them longer.
func (w *bitWriter) block(src []byte, c *coding, last bool) {
	before := *w
	if len(src) >= minDescribed && w.encode(src, c, last) && len(w.b)-len(before.b) < len(src) {
		return
	}
	*w = before
	w.encode(src, &fixed, last)
	if len(w.b)-len(before.b) > len(src) {
		*w = before
		w.stored(len(src), last)
		w.b = append(w.b, src...)
	}
}

// encode writes a block with c. It returns false, and has written a part of
// it, when c does not have one of the octets.
func (w *bitWriter) encode(src []byte, c *coding, last bool) bool {
	w.putLast(last)
	for b := c.start.b; len(b) > 0; b = b[4:] {
		w.put(load4(b), 32)
	}
	w.put(uint32(c.start.bits), c.start.n)
	seen := hashTables.Get().(*hashTable)
	defer hashTables.Put(seen)
	clear(seen[:])
	b, bits, n := w.b, w.bits, w.n // on their own they are kept in registers
	for i := 0; i < len(src); {
		if i > 0 && i+minMatch <= len(src) {
			next := load4(src[i:])
			h := hash4(next)
			at := int(seen[h])
			seen[h] = uint16(i)
			if load4(src[at:]) == next {
				end := min(i+maxMatch, len(src))
				length := minMatch + common(src[at+minMatch:], src[i+minMatch:end])
				w.b, w.bits, w.n = b, bits, n
				w.putExtra(length-3, 2, c.literals[endOfBlock+1:])
				w.putExtra(i-at-1, 1, c.distances[:])
				b, bits, n = w.b, w.bits, w.n
				end = i + length
				for i++; i < end && i+minMatch <= len(src); i++ {
					seen[hash4(load4(src[i:]))] = uint16(i)
				}
				i = end
				continue
			}
		}
		l := c.literals[src[i]]
		if l.n == 0 {
			w.b = b
			return false
		}
		i++
		bits |= uint64(l.bits) << n
		if n += uint(l.n); n >= 32 {
			b = binary.LittleEndian.AppendUint32(b, uint32(bits))
			bits >>= 32
			n -= 32
		}
	}
	w.b, w.bits, w.n = b, bits, n
	end := c.literals[endOfBlock]
	w.put(uint32(end.bits), uint(end.n))
	return true
}

// putExtra writes a length less 3, or a distance less 1: a symbol, and the
// lower bits of v as extra bits (§3.2.5). With any number of extra bits there
// are four lengths, or two distances: 1<<log.
func (w *bitWriter) putExtra(v int, log uint, symbols []code) {
	extra := uint(max(0, bits.Len(uint(v))-1-int(log)))
	s := symbols[int(extra)<<log+v>>extra]
	w.put(uint32(s.bits)|uint32(v)&(1<<extra-1)<<s.n, uint(s.n)+extra)
}

func load4(p []byte) uint32 { return binary.LittleEndian.Uint32(p) }

const hashBits = 11

// A hashTable tells by hash where four octets began, the last time. It is big
// for the stack of a goroutine that compresses but one block, and so is pooled.
type hashTable [1 << hashBits]uint16

var hashTables = sync.Pool{New: func() any { return new(hashTable) }}

func hash4(v uint32) uint32 { return v * 0x9e3779b1 >> (32 - hashBits) }

// common returns in how many octets a begins like b, which is not longer.
func common(a, b []byte) int {
	for n := range b {
		if a[n] != b[n] {
			return n
		}
	}
	return len(b)
}

// A code is that of a symbol, as n bits, the first one the lowest. With n 0
// there is none.
type code struct{ bits, n uint16 }

// A coding has the codes of a block.
type coding struct {
	start     bitWriter // what a block starts with, but for the bit of the last one
	literals  [288]code // octets, end of block, lengths
	distances [32]code
}

// A span is of symbols whose codes have n bits, up to where the next one
// starts.
type span struct{ from, n int }

// fixed is the coding of §3.2.6.
var fixed = func() (c coding) {
	c.start.put(1, 2)
	assign(c.literals[:], []span{{0, 8}, {144, 9}, {256, 7}, {280, 8}})
	assign(c.distances[:], []span{{0, 5}})
	return c
}()

// ofRecords is for headers of records: much in them is hexadecimal.
var ofRecords = newCoding([]span{
	{0, 0}, {'\n', 8}, {'\n' + 1, 0}, {'\r', 7}, {'\r' + 1, 0},
	{' ', 7}, {'!', 11}, {'-', 5}, {';', 11}, {'<', 9},
	{'a', 5}, {'g', 7}, {'n', 6}, {'t', 5}, {'u', 7}, {'z', 11}, {'~' + 1, 0},
	{endOfBlock, 8}, {268, 11},
})

// ofMessages is for heads of HTTP messages and short texts.
var ofMessages = newCoding([]span{
	{0, 0}, {'\n', 6}, {'\n' + 1, 0}, {'\r', 6}, {'\r' + 1, 0},
	{' ', 4}, {'!', 11}, {'"', 6}, {'#', 11}, {',', 6}, {';', 8}, {'`', 11},
	{'a', 5}, {'b', 6}, {'e', 4}, {'f', 6}, {'v', 8}, {'~' + 1, 0},
	{endOfBlock, 11}, {258, 6}, {260, 8}, {267, 9}, {275, 11},
})

// newCoding returns a coding that blocks describe at their start (§3.2.7). Few
// spans, of few different lengths, make this short. They were searched for: no
// others are much better for the headers and heads of many sites.
func newCoding(literals []span) (c coding) {
	assign(c.literals[:286], literals)
	assign(c.distances[:30], []span{{0, 8}, {8, 4}, {17, 5}})
	var lengths [19]code // of code lengths
	assign(lengths[:], []span{{0, 5}, {1, 0}, {4, 4}, {10, 0}, {11, 4}, {12, 0}, {16, 1}, {17, 0}, {18, 5}})
	order := []int{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4} // no others have a code

	w := &c.start
	w.put(2, 2)
	w.put(286-257, 5)
	w.put(30-1, 5)
	w.put(uint32(len(order)-4), 4)
	for _, symbol := range order {
		w.put(uint32(lengths[symbol].n), 3)
	}
	all := slices.Concat(c.literals[:286], c.distances[:30])
	for i := 0; i < len(all); {
		n := 1
		for i+n < len(all) && all[i+n].n == all[i].n {
			n++
		}
		symbol, extra := all[i].n, code{}
		switch {
		case symbol == 0 && n >= 11: // zeros
			n = min(n, 138)
			symbol, extra = 18, code{uint16(n - 11), 7}
		case i > 0 && symbol == all[i-1].n && n >= 3: // the one before, again
			n = min(n, 6)
			symbol, extra = 16, code{uint16(n - 3), 2}
		default:
			n = 1
		}
		w.put(uint32(lengths[symbol].bits), uint(lengths[symbol].n))
		w.put(uint32(extra.bits), uint(extra.n))
		i += n
	}
	return c
}

// assign makes the codes of such lengths (§3.2.2).
func assign(codes []code, spans []span) {
	for i, s := range spans {
		to := len(codes)
		if i+1 < len(spans) {
			to = spans[i+1].from
		}
		for symbol := s.from; symbol < to; symbol++ {
			codes[symbol].n = uint16(s.n)
		}
	}
	next := uint16(0)
	for n := uint16(1); n < 16; n++ {
		next <<= 1
		for i := range codes {
			if codes[i].n == n {
				codes[i].bits = bits.Reverse16(next) >> (16 - n)
				next++
			}
		}
	}
}
