package chaos

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/loadtest/chaos/proxies"
	"github.com/switchyard/switchyard/loadtest/chaos/schedule"
	"github.com/switchyard/switchyard/loadtest/fleet"
)

// siteSettings are what a site consists of.
type siteSettings struct {
	// Programs is the folder that fleet.Build returned.
	Programs string
	// Replicas are how many there are of each service, and of the servers.
	Replicas map[string]int
	// Flags are every service's.
	Flags []string
	// Disks says that servers store on disks of their own, which can be full.
	Disks bool
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
	clock   *fleet.Clock  // nil for a server
	server  *fleet.Server // nil for a service
	disk    *fleet.Disk   // nil for a service, and where no disk is to be full

	whole   sync.Mutex // held while something is wrong here
	process *fleet.Process
}

// newSite starts everything, and waits until it is ready.
func newSite(t *testing.T, s siteSettings) *Site {
	t.Helper()
	site := &Site{t: t, places: map[schedule.Target]*place{}, began: time.Now()}
	site.addServers(s)
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

// addServers starts the servers, several as a cluster.
func (s *Site) addServers(of siteSettings) {
	s.t.Helper()
	settings := fleet.Settings{Programs: of.Programs, Servers: of.Replicas[schedule.Server], Flags: of.Flags}
	if settings.Servers > 1 {
		settings.ServerConfig = fleet.Deployed
	}
	var disks []*fleet.Disk
	if of.Disks {
		settings.JetStream = "max_file_store: 10GB" // else a share of the disk, less than the token log's bound
		settings.Store = func(int) string {
			d, err := fleet.NewDisk(s.t)
			if err != nil {
				s.t.Fatalf("a disk that can be full: %v", err)
			}
			disks = append(disks, d)
			return d.Dir()
		}
	}
	s.fleet = fleet.New(s.t, settings)
	for i, server := range s.fleet.Servers {
		p := &place{target: schedule.Target{Service: schedule.Server, Replica: i}, server: server, process: server.Process}
		if of.Disks {
			p.disk = disks[i]
		}
		s.add(p)
	}
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
	s.add(&place{target: target, link: link, metrics: testkit.FreeAddr(s.t), clock: fleet.NewClock(s.t)})
}

// URL lists the servers, past all proxies.
func (s *Site) URL() string { return s.fleet.URL() }

func (s *Site) launch(p *place) *fleet.Process {
	if p.server != nil {
		p.server.Launch()
		return p.server.Process
	}
	return s.fleet.Run(p.target.Service, p.link.URL(), p.clock, "--metrics-addr", p.metrics)
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
