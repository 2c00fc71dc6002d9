package admission

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Requests whose shard went elsewhere before its owner saw them are forgotten, also where
// no quota and no deadline makes a look at what waits.
func TestNoRequestWaitsForEver(t *testing.T) {
	d, now := newDemand(), time.Now()
	for i := range 1000 {
		now = now.Add(time.Second)
		request := fmt.Sprint(i)
		d.enter(request, schemas.DefaultFlow(), now)
		d.leave(request, AnnouncedWithin, now)
	}
	if most := int((enterWithin + AnnouncedWithin).Seconds()) + 2; len(d.waiting) > most {
		t.Errorf("%d requests count as waiting, and %d may", len(d.waiting), most)
	}
}

// A first token is predicted from what goes before and how fast that got done.
func TestForecast(t *testing.T) {
	d, now := newDemand(), time.Now()
	accept := func(tenant string) *pb.Accept { return &pb.Accept{Tenant: tenant, PromptTokens: 20, MaxTokens: 80} }
	predict := func() forecast {
		d.enter("new", schemas.Flow{Tenant: "me", Class: schemas.ClassNormal}, now)
		d.expect("new", 1, 100)
		defer d.leave("new", 0, now)
		return d.forecast("new", accept("me"), 1, now)
	}
	for i := range 10 {
		d.accepted(fmt.Sprint("hot", i), accept("hot"))
	}
	if f := predict(); f.turn != 0 || f.first != 0 {
		t.Errorf("%+v is predicted though nothing was seen", f)
	}
	for range 20 { // ten requests, 1,000 tokens a second
		now = now.Add(100 * time.Millisecond)
		d.done(accept("hot"), &pb.Timings{Queue: 1, Ttft: 1.02}, true, now)
	}
	if f := predict(); f.turn < 0.18 || f.turn > 0.25 || f.first-f.turn < 0.015 || f.first-f.turn > 0.025 { // one of each tenant
		t.Errorf("behind another's ten: %+v", f)
	}
	for i := range 10 {
		d.accepted(fmt.Sprint("mine", i), accept("me"))
	}
	if f := predict(); f.turn < 1.8 || f.turn > 2.5 {
		t.Errorf("behind ten of its own and another's ten: %+v", f)
	}
	for i := range 10 {
		d.turn(fmt.Sprint("hot", i))
		d.turn(fmt.Sprint("mine", i))
	}
	if f := predict(); f.turn != 0 || len(d.waiting) != 0 {
		t.Errorf("behind nobody: %+v", f)
	}
}

// Who was promised all times there are makes no other tenant wait for them.
func TestForecastBesidePromises(t *testing.T) {
	d, now := newDemand(), time.Now()
	accept := func(tenant string) *pb.Accept { return &pb.Accept{Tenant: tenant, PromptTokens: 20, MaxTokens: 80} }
	of := func(tenant, id string) Request {
		return Request{ID: id, Flow: schemas.Flow{Tenant: tenant, Class: schemas.ClassNormal}}
	}
	for i := range 10 {
		d.accepted(fmt.Sprint("hot", i), accept("hot"))
		d.accepted(fmt.Sprint("mine", i), accept("me"))
	}
	for range 20 { // ten requests, 1,000 tokens a second
		now = now.Add(100 * time.Millisecond)
		d.done(accept("hot"), &pb.Timings{}, true, now)
	}
	predict := func() forecast {
		d.enter("new", schemas.Flow{Tenant: "me", Class: schemas.ClassNormal}, now)
		d.expect("new", 1, 100)
		defer d.leave("new", 0, now)
		return d.forecast("new", accept("me"), 1, now)
	}
	before := predict()
	for i := range 500 {
		d.promise(of("hot", fmt.Sprint("promised", i)), 1, now, 0.1, 0.1, 100)
	}
	if f := predict(); f.turn < before.turn || f.turn > before.turn+0.2 { // one of it more may go first
		t.Errorf("beside another's promises: %+v, without: %+v", f, before)
	}
	if after := d.promise(of("me", "new"), 1, now, 0.3, 0.1, 100); math.Abs(after-0.3) > 1e-6 {
		t.Errorf("it is told to come in %v s", after)
	}
	for i := range 5 {
		d.promise(of("me", fmt.Sprint("own", i)), 1, now, 0.3, 0.1, 100)
	}
	if f := predict(); f.turn < before.turn+0.5 {
		t.Errorf("behind promises of its own: %+v, without: %+v", f, before)
	}
	if n := d.held(of("me", "other"), 10, now); n != 10 {
		t.Errorf("%d of 10 places are held", n)
	}
}
