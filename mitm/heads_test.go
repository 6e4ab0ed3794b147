package mitm

import (
	"net/netip"
	"testing"
)

func TestHeadRoom(t *testing.T) {
	h := newHeads(Limits{MaxUnfinished: 4 << 20}.withDefaults())
	if h.max != 4<<20 || h.maxPerClient != 1<<20 {
		t.Fatalf("the bounds are %d and %d", h.max, h.maxPerClient)
	}
	address := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}) }
	one, other := h.share(address(1)), h.share(address(1))
	if !one.hold(1<<20-10) || other.hold(11) || !other.hold(10) || other.add(1) {
		t.Error("a client does not get a quarter")
	}
	if !one.hold(0) || !other.add(1) {
		t.Error("what was given back is not given again")
	}
	one.leave()
	if !one.hold(1<<20) || h.total != 11 {
		t.Error("what has left is counted")
	}
	other.leave()
	other.leave()
	for i := range 4 {
		if !h.share(address(i)).hold(1 << 20) {
			t.Errorf("client %d gets nothing", i)
		}
	}
	if h.share(address(5)).hold(1) {
		t.Error("all clients together get more than there is")
	}
	if !(*headShare)(nil).add(1 << 40) {
		t.Error("a connection of no listener is bounded")
	}
	if large := newHeads(Limits{MaxUnfinished: 1, MaxHead: 1 << 20}.withDefaults()); large.max < 2<<20 || large.maxPerClient < 2<<20 {
		t.Errorf("with large heads the bounds are %d and %d", large.max, large.maxPerClient)
	}
}
