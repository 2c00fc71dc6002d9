// Package site runs what the chaos tests break: NATS servers, and replicas of
// every service as processes of their own, each behind proxies of its own.
package site

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/switchyard/switchyard/loadtest/chaos/proxies"
	"github.com/switchyard/switchyard/loadtest/chaos/schedule"
	"github.com/switchyard/switchyard/loadtest/fleet"
)

// Settings are what a site consists of.
type Settings struct {
	// Programs is the folder that fleet.Build returned.
	Programs string
	// Replicas are how many there are of each service, and of the servers.
	Replicas map[string]int
	// Flags are every service's.
	Flags []string
}

// Site is the servers and the replicas, each at its place.
type Site struct {
	t      *testing.T
	fleet  *fleet.Fleet
	places map[schedule.Target]*place
	began  time.Time

	mu       sync.Mutex
	problems []string
}

// place is where a replica or a server runs. Another process takes its place
// when it ends, with the same way to the servers.
type place struct {
	target  schedule.Target
	link    *proxies.Link // nil for a server
	metrics string        // HOST:PORT, of a service
	server  *fleet.Server // nil for a service

	whole   sync.Mutex // held while something is wrong here
	process *fleet.Process
}

// New starts everything, and waits until it is ready.
func New(t *testing.T, s Settings) *Site {
	t.Helper()
	f := fleet.New(t, fleet.Settings{Programs: s.Programs, Servers: s.Replicas[schedule.Server], Flags: s.Flags})
	site := &Site{t: t, fleet: f, places: map[schedule.Target]*place{}, began: time.Now()}
	for i, server := range f.Servers {
		site.add(&place{target: schedule.Target{Service: schedule.Server, Replica: i}, server: server, process: server.Process})
	}
	for _, service := range schedule.Services {
		for i := range s.Replicas[service] {
			site.addReplica(schedule.Target{Service: service, Replica: i})
		}
	}
	for _, p := range site.places {
		if p.server == nil {
			p.process = site.launch(p)
		}
	}
	for _, p := range site.places {
		if err := p.ready(); err != nil {
			t.Fatal(err)
		}
	}
	return site
}

func (s *Site) add(p *place) { s.places[p.target] = p }

func (s *Site) addReplica(target schedule.Target) {
	s.t.Helper()
	var servers []string
	for _, server := range s.fleet.Servers {
		servers = append(servers, server.Addr)
	}
	link, err := proxies.New(target.String(), servers...)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(link.Close)
	s.add(&place{target: target, link: link, metrics: fleet.FreeAddr(s.t)})
}

// URL lists the servers, past all proxies.
func (s *Site) URL() string { return s.fleet.URL() }

// launch starts the process of a place.
func (s *Site) launch(p *place) *fleet.Process {
	if p.server != nil {
		p.server.Launch()
		return p.server.Process
	}
	return s.fleet.Run(p.target.Service, p.link.URL(), "--metrics-addr", p.metrics)
}

// ready waits until the process of a place is.
func (p *place) ready() error {
	if p.server != nil {
		return p.process.Says("Server is ready")
	}
	return p.process.Says("ready")
}

// problem notes what went wrong beside the schedule.
func (s *Site) problem(err error) {
	if err == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.problems = append(s.problems, fmt.Sprintf("at %v: %v", time.Since(s.began).Round(time.Millisecond), err))
}

// Problems are what went wrong beside the schedule: processes that ended by
// themselves, did not start, or did not end when they were asked to.
func (s *Site) Problems() []string {
	for _, p := range s.places {
		if p.process.Ended() {
			s.problem(fmt.Errorf("%v ended by itself:\n%s", p.target, p.process.Tail()))
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.problems
}
