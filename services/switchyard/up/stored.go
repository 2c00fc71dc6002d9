package up

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/pkg/transport/weights"
	"github.com/switchyard/switchyard/services/switchyard/cli"
)

// StoreScheme begins the name of a model that is in the object store.
const StoreScheme = "nats://"

// InStore returns the name of a model in the object store, if that is where it is.
func (f ModelFlags) InStore() (name string, ok bool) { return strings.CutPrefix(f.dir(), StoreScheme) }

// CheckStored refuses what is no name in the object store.
func (f ModelFlags) CheckStored(name string) error {
	if err := weights.CheckName(name); err != nil {
		return fmt.Errorf("--model is %q, but it is %sNAME, and the server is --nats; switchyard weights ls says which models there are: %w", f.dir(), StoreScheme, err)
	}
	return nil
}

// openStored opens a model of the object store, over a connection of its own.
type openStored func(ctx context.Context, e *cli.Env, name string) (*model.Model, error)

// awaitStored opens a model for a service, which waits for the server as for everything else.
func awaitStored(ctx context.Context, e *cli.Env, name string) (*model.Model, error) {
	conn, err := bus.Connect(ctx, e.BusConfig(), bus.Settings{Name: "switchyard weights", Logger: e.Log})
	if err != nil {
		return nil, err
	}
	m, err := weights.Open(ctx, conn, e.Prefix, name, e.Log)
	if err != nil {
		conn.Close()
	}
	return m, err
}

// storedWithin is how long other commands wait for a server.
const storedWithin = 10 * time.Second

// OpenStoredNow opens a model of the object store for a command that is no service.
func OpenStoredNow(ctx context.Context, e *cli.Env, name string) (*model.Model, error) {
	conn, err := e.Connect(ctx, "weights", cli.ConnectFlags{ConnectTimeout: storedWithin})
	if err != nil {
		return nil, err
	}
	m, err := weights.OpenNow(ctx, conn, e.Prefix, name, e.Log)
	if err != nil {
		err = cli.Explained(conn, err)
		conn.Close()
	}
	return m, err
}
