// Package proxies puts a TCP proxy between a replica and each NATS server, to
// spoil the connection.
package proxies

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"

	"github.com/switchyard/switchyard/loadtest/chaos/schedule"
)

// How bad a spoilt connection is.
const (
	latency   = 30 * time.Millisecond
	jitter    = 20 * time.Millisecond
	kiloBytes = 500 // a second
)

// toxic is what the library is told to do, in its words.
type toxic struct {
	Name       string         `json:"name"`
	Type       string         `json:"type"`
	Stream     string         `json:"stream"`
	Attributes map[string]any `json:"attributes"`
}

// effect is a kind of fault in the library's words. That of a vanished process
// keeps the server from learning of its end.
func effect(k schedule.Kind, length time.Duration) (name string, attributes map[string]any) {
	switch k {
	case schedule.Latency:
		return "latency", map[string]any{"latency": latency.Milliseconds(), "jitter": jitter.Milliseconds()}
	case schedule.Bandwidth:
		return "bandwidth", map[string]any{"rate": kiloBytes}
	case schedule.Reset:
		return "reset_peer", map[string]any{"timeout": 0}
	case schedule.Partition:
		return "timeout", map[string]any{"timeout": 0}
	case schedule.Vanish:
		return "slow_close", map[string]any{"delay": length.Milliseconds()}
	}
	return "", nil
}

// Link is a replica's way to the servers.
type Link struct {
	proxies []*toxiproxy.Proxy
	urls    []string
}

// New makes the way to servers at these addresses, HOST:PORT each.
func New(name string, servers ...string) (*Link, error) {
	zerolog.SetGlobalLevel(zerolog.Disabled) // a toxic of the library writes to its global logger
	api := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	l := &Link{}
	for i, server := range servers {
		p := toxiproxy.NewProxy(api, fmt.Sprintf("%s-%d", name, i), "127.0.0.1:0", server)
		if err := p.Start(); err != nil {
			l.Close()
			return nil, fmt.Errorf("starting a proxy for %s to %s: %w", name, server, err)
		}
		l.proxies, l.urls = append(l.proxies, p), append(l.urls, "nats://"+p.Listen)
	}
	return l, nil
}

// URL is what the replica connects to.
func (l *Link) URL() string { return strings.Join(l.urls, ",") }

// directions of a connection, in the library's words.
var directions = []string{"upstream", "downstream"}

// Spoil begins a fault of the connections, those that follow too.
func (l *Link) Spoil(k schedule.Kind, length time.Duration) error {
	name, attributes := effect(k, length)
	if name == "" {
		return fmt.Errorf("%s is no fault of a connection", k)
	}
	for _, p := range l.proxies {
		for _, d := range directions {
			if err := add(p, toxic{Name: d, Type: name, Stream: d, Attributes: attributes}); err != nil {
				return err
			}
		}
	}
	return nil
}

func add(p *toxiproxy.Proxy, t toxic) error {
	body, err := json.Marshal(t)
	if err == nil {
		_, err = p.Toxics.AddToxicJson(strings.NewReader(string(body)))
	}
	if err != nil {
		return fmt.Errorf("adding %s to the proxy %s: %w", t.Type, p.Name, err)
	}
	return nil
}

// Heal ends all faults.
func (l *Link) Heal() {
	for _, p := range l.proxies {
		p.Toxics.ResetToxics(context.Background())
	}
}

// Close ends all connections and takes no further ones.
func (l *Link) Close() {
	for _, p := range l.proxies {
		p.Stop()
	}
}
