package tokenizer

import (
	"fmt"
	"testing"
	"time"

	"github.com/switchyard/switchyard/schemas"
)

// Requests whose shard went elsewhere before its owner saw them are forgotten, also where
// no quota and no deadline has anybody look at who waits.
func TestNobodyWaitsForEver(t *testing.T) {
	d, now := newDemand(), time.Now()
	for i := range 1000 {
		now = now.Add(time.Second)
		request := fmt.Sprint(i)
		d.enter(request, schemas.DefaultFlow(), now)
		d.leave(request, announcedWithin, now)
	}
	if most := int((enterWithin + announcedWithin).Seconds()) + 2; len(d.waiting) > most {
		t.Errorf("%d requests count as waiting, and %d may", len(d.waiting), most)
	}
}
