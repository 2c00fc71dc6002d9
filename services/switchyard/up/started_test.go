package up

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"testing"

	"github.com/switchyard/switchyard/schemas"
	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest"
)

// quietEnv is that of a command that says nothing.
func quietEnv() *cli.Env {
	return &cli.Env{Globals: cli.Globals{Prefix: schemas.DefaultPrefix}, Stdio: cli.Stdio{Out: io.Discard, Err: io.Discard}, Log: slog.New(slog.DiscardHandler)}
}

// startUp is what "up" runs, on one thread and without a control loop unless set says
// otherwise.
func startUp(t *testing.T, set func(*Cmd)) clustertest.Cluster {
	t.Helper()
	s, err := InProcess(t.Context(), quietEnv(), func(up *Cmd) {
		up.Threads = 1
		set(up)
	})
	if err != nil {
		t.Fatal(err)
	}
	return clustertest.Run(t, s)
}

// Whole pipelines are tested elsewhere, with the settings that the command has by default.
func TestTestedSettings(t *testing.T) {
	s, err := InProcess(t.Context(), quietEnv(), func(up *Cmd) { up.Threads, up.Scaling = 1, "static" })
	if err != nil {
		t.Fatal(err)
	}
	tested, err := clustertest.Settings(t.Context(), s.Node.Shared.Model, s.Node.Shared.Wire, schemas.HopsUnacked)
	if err != nil {
		t.Fatal(err)
	}
	clustertest.Loop("static")(&tested)
	n, own := s.Node, tested.Node
	own.KeepModel = true
	t.Cleanup(func() {
		if err := errors.Join(own.Close(), n.Close()); err != nil {
			t.Error(err)
		}
	})
	// What each has of its own, and what only says where it is from.
	of := own.Shared
	of.Pool, of.Telemetry, of.Logger = n.Shared.Pool, n.Shared.Telemetry, n.Shared.Logger
	of.Class, of.Version, tested.Services.Tokenizer.Version = n.Shared.Class, n.Shared.Version, s.Services.Tokenizer.Version
	tested.KafkaTopic, tested.Node, s.Node = s.KafkaTopic, nil, nil
	if got, want := fmt.Sprintf("%+v %+v", tested, of), fmt.Sprintf("%+v %+v", s, n.Shared); got != want {
		t.Errorf("tested is\n%s\nthe command has\n%s", got, want)
	}
}
