package recorder

import (
	"testing"
	"testing/synctest"
)

// What the follower was given of bytes that are not kept stays, also when the
// message is cut while a slow client takes it: the writer's buffer is then used
// for another message.
func TestSpoolPassedViewsStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSpool(plenty(), t.TempDir(), -1)
		defer s.release()
		f := s.follow()
		buf := []byte("first")
		passed := make(chan bool, 1)
		go func() { passed <- s.pass(buf) }() // ended by stopPassing
		view, err := f.next(nil)
		if err != nil || string(view) != "first" {
			t.Fatalf("got %q, %v", view, err)
		}
		synctest.Wait()
		s.stopPassing()
		<-passed
		copy(buf, "other")
		if string(view) != "first" {
			t.Errorf("the view became %q", view)
		}
	})
}
