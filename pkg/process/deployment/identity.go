package deployment

import (
	"os"
	"time"
)

// process is where a replica runs.
type process struct {
	host    string // the machine's name; empty: it has none
	pid     int
	version string
}

// Bounds of what members tell of it.
const (
	maxHost    = 253
	maxVersion = 64
)

func thisProcess(version string) process {
	host, err := os.Hostname()
	if err != nil {
		host = ""
	}
	return process{host: host[:min(len(host), maxHost)], pid: os.Getpid(), version: version[:min(len(version), maxVersion)]}
}

// TellStart logs where a replica runs: its id leads there. It is in the message, too: of
// many lines with the same message a log keeps a few.
func (d *Deployment) TellStart() {
	d.Logger.Info("replica "+d.replica+" starts", "host", d.process.host, "pid", d.process.pid, "version", d.process.version)
}

// ReplicaID is the id of a replica with this deployment.
func (d *Deployment) ReplicaID(service string) string {
	if d.replica != "" {
		return d.replica
	}
	return NewID(service)
}

// uptime is the seconds since the replica was made.
func (p *Presence) uptime() float64 { return time.Since(p.made).Seconds() }

// maxTrouble bounds a replica's words about what it lacks.
const maxTrouble = 300

// trouble is why the replica is not ready, as far as it says.
func (p *Presence) trouble() string {
	if p.Trouble == nil {
		return ""
	}
	err := p.Trouble()
	if err == nil {
		return ""
	}
	text := []rune(err.Error())
	return string(text[:min(len(text), maxTrouble)])
}
