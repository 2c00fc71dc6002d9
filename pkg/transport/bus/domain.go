package bus

import (
	"context"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/internal/pause"
	"github.com/switchyard/switchyard/schemas"
)

// Behind a leaf node JetStream is that of other servers, in a domain of its own. Streams' subjects cross the leaf node as
// any others; those of JetStream's API and of buckets ($KV) do not: the domain has another name for them.

// checkAPI refuses what cannot name a domain, or begin subjects.
func (f *contextFile) checkAPI() error {
	switch {
	case f.Domain != "" && f.APIPrefix != "":
		return fmt.Errorf("JetStream's domain is %q and its API prefix %q: give one of them", f.Domain, f.APIPrefix)
	case strings.ContainsAny(f.Domain, ".*> \t\r\n"):
		return fmt.Errorf("JetStream's domain (--js-domain) is %q; it must be one token of a subject", f.Domain)
	case strings.ContainsAny(f.APIPrefix, "*> \t\r\n") || strings.Contains(f.APIPrefix, "..") || strings.HasPrefix(f.APIPrefix, "."):
		return fmt.Errorf("JetStream's API prefix (--js-api-prefix) is %q; it must be as in JS.hub.API", f.APIPrefix)
	}
	return nil
}

// jetStream is the client of JetStream where it is.
func (f *contextFile) jetStream(nc *nats.Conn) (jetstream.JetStream, error) {
	switch {
	case f.Domain != "":
		return jetstream.NewWithDomain(nc, f.Domain)
	case f.APIPrefix != "":
		return jetstream.NewWithAPIPrefix(nc, f.APIPrefix)
	}
	return jetstream.New(nc)
}

// apiPrefix is what the subjects of JetStream's API begin with.
func apiPrefix(js jetstream.JetStream) string {
	switch o := js.Options(); {
	case o.APIPrefix != "":
		return strings.TrimSuffix(o.APIPrefix, ".") + "."
	case o.Domain != "":
		return "$JS." + o.Domain + ".API."
	}
	return jetstream.DefaultAPIPrefix
}

// guessesCopies reports whether nobody has said how many copies streams have, and the server to which this is connected tells
// nothing of it: JetStream is that of others, or a leaf node takes itself for a cluster of its own name.
func (c *Conn) guessesCopies() bool {
	leaf := c.nc.ConnectedClusterName() != "" && c.nc.ConnectedClusterName() == c.nc.ConnectedServerName()
	return c.replicas.Load() == 0 && (c.keysBehind != "" || leaf)
}

// KeyTo is the subject that writes of a key are published on. A message sent there is a write that nobody waits for.
func (c *Conn) KeyTo(bucket, key string) string { return c.keysBehind + KeySubject(bucket, key) }

// followStored is FollowKeys where writes are not heard: it reads them from the stream. What it cannot tell from a
// write before now it tells, too, and of writes that follow each other at once it may tell the last one alone.
//
//nolint:contextcheck,nolintlint // stop ends it
func (c *Conn) followStored(bucket, key string, handler func(key string, value []byte, deleted bool)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	stream, prefix := schemas.BucketStream(bucket), len(KeySubject(bucket, ""))
	var from Place
	if state, err := c.State(ctx, stream); err == nil {
		from = Place{Incarnation: state.Incarnation, Sequence: state.Last}
	}
	go func() {
		for ctx.Err() == nil && !c.nc.IsClosed() {
			// It ends by ctx, or because the bucket was made anew.
			_ = c.Follow(ctx, stream, []string{KeySubject(bucket, key)}, from, func(m Stored) bool {
				handler(m.Subject[prefix:], m.Data, len(m.Data) == 0)
				return true
			})
			from = Place{}
			_ = pause.For(ctx, firstWait) // the loop sees the end of ctx
		}
	}()
	return cancel
}
