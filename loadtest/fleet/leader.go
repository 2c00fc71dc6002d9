package fleet

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/schemas"
)

// askWithin bounds a server's answer: one that hangs gives none.
const askWithin = time.Second

// Leader asks which server leads the demo model's token log now. A lone server
// leads everything.
func (f *Fleet) Leader(ctx context.Context) (*Server, error) {
	if len(f.Servers) == 1 {
		return f.Servers[0], nil
	}
	name, err := f.leader(ctx)
	if err != nil {
		return nil, fmt.Errorf("asking who leads the token log: %w", err)
	}
	i := slices.IndexFunc(f.Servers, func(s *Server) bool { return s.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("the token log's leader is %q, which is none of the servers", name)
	}
	return f.Servers[i], nil
}

func (f *Fleet) leader(ctx context.Context) (name string, err error) {
	nc, err := nats.Connect(f.URL(), nats.Name("who leads"), nats.Timeout(askWithin))
	if err != nil {
		return "", err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	names := schemas.Streams{Subjects: schemas.NewSubjects(schemas.DefaultPrefix, "demo")}
	stream, err := js.Stream(ctx, names.Tokens().Name)
	if err != nil {
		return "", err
	}
	if c := stream.CachedInfo().Cluster; c != nil {
		name = c.Leader
	}
	return name, nil
}
