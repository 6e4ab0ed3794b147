package certs

import (
	"fmt"
	"testing"
)

// However many names clients ask for, only so many certificates are kept: those
// that were used last.
func TestKeepLeaves(t *testing.T) {
	const keep, names = 20, 500
	a := open(t)
	a.KeepLeaves(keep)
	used, err := a.Leaf("used.example")
	if err != nil {
		t.Fatal(err)
	}
	for i := range names {
		if _, err := a.Leaf(fmt.Sprintf("%d.example", i)); err != nil {
			t.Fatal(err)
		}
		if again, err := a.Leaf("used.example"); err != nil || again != used {
			t.Fatalf("the certificate that is used again and again is not kept (%v)", err)
		}
	}
	if n := a.leaves.Len(); n != keep {
		t.Errorf("%d certificates are kept, want %d", n, keep)
	}
}
