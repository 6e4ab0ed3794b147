package arc

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// A Record is the head of a record. Its block is read from the [Reader].
type Record struct {
	URL  string // as it is, maybe with spaces; filedesc://… in the first record of a file
	IP   string // as it is; "0.0.0.0" and "0" mean that it is not known
	Date string // as it is, see Time
	Type string // the media type that the origin gave, "no-type", or nothing

	// The further fields of version 2. They are empty in version 1.
	Result, Checksum, Location, FileOffset, Filename string

	Line   string // all of this as it is in the file, without the line end
	Length int64  // octets of the block, as the line tells; 0 when it does not
	Damage error  // what is wrong with the line, of which the rest is understood; nil: nothing
	Offset int64  // bytes of the input before the record or the gzip member in which it starts
}

// Filedesc reports whether the record is the one that describes the file.
func (r *Record) Filedesc() bool { return strings.HasPrefix(r.URL, "filedesc:") }

// Time returns the date, in UTC. It has 14 digits, YYYYMMDDhhmmss. Met are 12
// too, without the seconds, and more, which are parts of a second.
func (r *Record) Time() (time.Time, error) {
	const layout = "20060102150405"
	digits := r.Date
	if len(digits) == len("200601021504") {
		digits += "00"
	}
	if len(digits) >= len(layout) && len(digits) <= len(layout)+maxFraction && isDigits(digits) {
		t, err := time.Parse(layout, digits[:len(layout)])
		if err == nil {
			fraction := (digits[len(layout):] + "000000000")[:9]
			ns, _ := strconv.Atoi(fraction) // nine digits
			return t.Add(time.Duration(ns)), nil
		}
	}
	return time.Time{}, fmt.Errorf("arc: %.40q is not a date such as 20140216050221", r.Date)
}

// maxFraction is how many digits there may be behind the seconds.
const maxFraction = 6

// parseLine understands the line of a record. Its fields are divided by spaces.
// Writers have let spaces into the URL and the media type, have left the media
// type out, and have exchanged the address and the date. So the date is what is
// looked for.
func parseLine(line string) (Record, error) {
	r := Record{Line: line}
	f := strings.Split(line, " ")
	length, f := f[len(f)-1], f[:len(f)-1]
	date := findDate(f)
	if date < 0 {
		return r, errors.New("it has no address and date of 12 to 20 digits behind the URL")
	}
	address := date - 1
	if !isAddress(f[address]) && date+1 < len(f) && isAddress(f[date+1]) {
		address = date + 1
	}
	r.URL = strings.Join(f[:min(address, date)], " ")
	r.Date, r.IP = f[date], f[address]
	r.splitRest(f[max(address, date)+1:])
	if !hasScheme(r.URL) {
		return r, fmt.Errorf("%.80q is no URL", r.URL)
	}
	n, err := strconv.ParseUint(length, 10, 63) // takes no sign
	if err != nil {
		r.Damage = fmt.Errorf("the length %.40q is not a length", length)
	}
	if err == nil { // else n is the greatest number
		r.Length = int64(n)
	}
	return r, nil
}

// damagedFiledesc is the first record of a file, of which the line was not understood.
func damagedFiledesc(line string, err error) Record {
	url, _, _ := strings.Cut(line, " ")
	return Record{URL: url, Line: line, Damage: err}
}

// findDate returns the index of the date: the last field of so many digits that
// stands beside an address. Without one, it is the third field, as it should be.
func findDate(f []string) int {
	for i := len(f) - 1; i >= 1; i-- {
		if isDate(f[i]) && (i >= 2 && isAddress(f[i-1]) || i+1 < len(f) && isAddress(f[i+1])) {
			return i
		}
	}
	if len(f) >= 3 && isDate(f[2]) {
		return 2
	}
	return -1
}

// splitRest takes the fields between date and length: the media type, and in
// version 2 result code, checksum, location, offset and file name.
func (r *Record) splitRest(f []string) {
	if n := len(f); n >= 6 && (f[n-5] == "-" || len(f[n-5]) <= 3 && isDigits(f[n-5])) && isDigits(f[n-2]) {
		r.Result, r.Checksum, r.Location, r.FileOffset, r.Filename = f[n-5], f[n-4], f[n-3], f[n-2], f[n-1]
		f = f[:n-5]
	}
	r.Type = strings.Join(f, " ")
}

func isDate(s string) bool {
	return len(s) >= len("200601021504") && len(s) <= len("20060102150405")+maxFraction && isDigits(s)
}

func isDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

func isAddress(s string) bool {
	_, err := netip.ParseAddr(s)
	return err == nil || s == "0" || s == "-"
}

// hasScheme reports whether s starts as an URI does (RFC 3986 §3.1).
func hasScheme(s string) bool {
	scheme, _, ok := strings.Cut(s, ":")
	if !ok || scheme == "" {
		return false
	}
	for i := range len(scheme) {
		c := scheme[i] | 0x20
		letter := c >= 'a' && c <= 'z'
		if !letter && (i == 0 || !isDigits(scheme[i:i+1]) && !strings.Contains("+-.", scheme[i:i+1])) {
			return false
		}
	}
	return true
}
