package chaos

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/switchyard/switchyard/loadtest/chaos/schedule"
)

// Faults of what a process needs from its host: room, memory, the right time.

// fill leaves a server no room. It stores nothing again before it is started anew.
func (s *Site) fill(f schedule.Fault, p *place) error {
	if err := p.disk.Fill(); err != nil {
		return err
	}
	time.Sleep(f.For)
	if err := p.disk.Free(); err != nil {
		return err
	}
	p.process.Kill()
	return s.replace(p)
}

// starve lets a process have no more memory. One that ends of that is replaced.
func (s *Site) starve(f schedule.Fault, p *place) error {
	if err := p.process.Starve(); err != nil {
		return err
	}
	time.Sleep(f.For)
	if p.process.Ended() {
		s.t.Logf("%v: it ended for want of memory", f)
		return s.replace(p)
	}
	return p.process.Feed()
}

// wrongBy is how wrong a clock is put: those of replicas with even places go ahead,
// the others behind.
const wrongBy = 5 * time.Minute

// skew puts a process's clock wrong, looks that it is, and puts it right.
func (p *place) skew(length time.Duration) error {
	wrong := wrongBy
	if p.target.Replica%2 == 1 {
		wrong = -wrong
	}
	if err := p.clock.Put(wrong); err != nil {
		return err
	}
	until := time.Now().Add(length)
	err := p.wrongBy(wrong)
	time.Sleep(time.Until(until))
	if right := p.clock.Put(0); right != nil {
		return right
	}
	return err
}

// wrongBy wants a process's own word that its clock is wrong: answers over HTTP have
// their time. One that does not answer in time says nothing.
func (p *place) wrongBy(wrong time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.metrics+"/healthz", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil
	}
	defer func() { _ = response.Body.Close() }() // only its head is of interest
	shown, err := http.ParseTime(response.Header.Get("Date"))
	if err != nil {
		return fmt.Errorf("reading the clock of %v: %w", p.target, err)
	}
	if off := time.Until(shown) - wrong; off.Abs() > wrongBy/2 {
		return fmt.Errorf("the clock of %v was put wrong by %v and shows %v: was it built with such a clock?", p.target, wrong, shown)
	}
	return nil
}
