package delivery

import (
	"fmt"
	"testing"
	"time"
)

// A tenant has a burst, then so many chunks a second, and another one does not wait for it.
func TestReplayRate(t *testing.T) {
	p, now := newReplayRate(), time.Now()
	burst := int(tenantChunks * burstFor.Seconds())
	for i := range burst {
		if wait := p.chunk("a", now); wait > 0 {
			t.Fatalf("chunk %d of a burst waits %v", i, wait)
		}
	}
	for range int(tenantChunks) {
		p.chunk("a", now)
	}
	if wait := p.chunk("a", now); wait < 900*time.Millisecond || wait > 1100*time.Millisecond {
		t.Errorf("a second's chunks later it waits %v", wait)
	}
	if wait := p.chunk("b", now); wait > 0 {
		t.Errorf("another tenant waits %v", wait)
	}
	if wait, err := p.begin("a", now); err != nil || wait < 900*time.Millisecond {
		t.Errorf("one more reader waits %v, %v", wait, err)
	}
	for range int(tenantChunks * longestWait.Seconds()) {
		p.chunk("a", now)
	}
	if _, err := p.begin("a", now); err == nil {
		t.Error("a reader would wait for longer than it may")
	}
	if wait, err := p.begin("a", now.Add(time.Minute)); err != nil || wait > 0 {
		t.Errorf("after a minute a reader waits %v, %v", wait, err)
	}
}

func TestReplayRateIsBounded(t *testing.T) {
	p, now := newReplayRate(), time.Now()
	for i := range 3 * maxRated {
		p.chunk(fmt.Sprint(i), now.Add(time.Duration(i)*time.Millisecond))
	}
	if len(p.each) > maxRated {
		t.Errorf("%d tenants are known", len(p.each))
	}
}
