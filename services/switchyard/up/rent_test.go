package up

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/mapfile"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/policy/predict/sps"
	"github.com/switchyard/switchyard/services/attention"
	"github.com/switchyard/switchyard/services/scaler"
	"github.com/switchyard/switchyard/services/switchyard/cli"
)

// up --policy remoe has hosts for what it rents, and refuses what cannot be before anything starts.
func TestRentFlags(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		set  func(*Cmd)
		code int
		says string
	}{
		{"by default", func(*Cmd) {}, cli.ExitDone, ""},
		{"on paced hosts", func(up *Cmd) { up.Device, up.Platform = "paced", "lambda" }, cli.ExitDone, ""},
		{"no plan", func(up *Cmd) { up.SLOTPOT = time.Microsecond }, cli.ExitInfeasible, "constraint 10c"},
		{"no plan, and yet", func(up *Cmd) { up.SLOTPOT, up.BestEffort = time.Microsecond, true }, cli.ExitDone, ""},
		{"no objective", func(up *Cmd) { up.SLOTTFT = 0 }, cli.ExitUsage, "the SLO is 0 s"},
		{"no tokens", func(up *Cmd) { up.SLOPrompt = 0 }, cli.ExitUsage, "must have one or more"},
		{"a free GPU", func(up *Cmd) { up.GPUPrice = 0 }, cli.ExitUsage, "the GPU's memory costs 0 times"},
		{"no platform", func(up *Cmd) { up.Platform = "moon" }, cli.ExitUsage, `no platform and no file "moon"`},
		{"a profile", func(up *Cmd) { up.Device, up.Profile = "paced", "a6000-mixtral" }, cli.ExitUsage, "--profile a6000-mixtral; leave"},
		{"a scaler", func(up *Cmd) { up.Scaling = "eplb" }, cli.ExitUsage, "--scaling eplb"},
		{"offloading", func(up *Cmd) { up.Offload = "lru" }, cli.ExitUsage, "--offload lru"},
		{"replicas", func(up *Cmd) { up.Replication = 2 }, cli.ExitUsage, "--replication"},
		{"no store", func(up *Cmd) { up.Similar = "nowhere" }, cli.ExitUsage, "--prompt-store: reading prompts"},
		{"users", func(up *Cmd) { up.Auth.On = true }, cli.ExitUsage, "--auth yet"},
	} {
		s, err := InProcess(t.Context(), quietEnv(), func(up *Cmd) {
			up.Threads, up.Policy, up.Scaling = 1, "remoe", AutoScaling
			tc.set(up)
		})
		if code := cli.ExitCode(err); code != tc.code || err != nil && !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: exit code %d, want %d; %v", tc.name, code, tc.code, err)
		}
		if err != nil {
			continue
		}
		if r := s.Services.Scaler.Rent; r == nil || s.Services.Expert.Rent.System != r.System || s.Count["expert"] != rentedHosts || s.Count["scaler"] != 1 || s.Count["predictor"] != 0 {
			t.Errorf("%s: %v, %+v", tc.name, s.Count, r)
		}
		if err := s.Node.Close(); err != nil {
			t.Error(err)
		}
	}
}

// With a plan for each request attention has one at a time, and begins it when its plan is there. A
// store foretells a prompt's experts, unless it is another model's.
func TestRentEach(t *testing.T) {
	t.Parallel()
	store := filepath.Join(t.TempDir(), "store")
	up := func(change func(*Cmd)) (*scaler.Rent, *attention.Config, *model.Model, error) {
		s, err := InProcess(t.Context(), quietEnv(), func(up *Cmd) {
			up.Threads, up.Policy, up.Scaling, up.PlanFor = 1, "remoe", AutoScaling, perRequest
			change(up)
		})
		if err != nil {
			return nil, nil, nil, err
		}
		t.Cleanup(func() {
			if err := s.Node.Close(); err != nil {
				t.Error(err)
			}
		})
		return s.Services.Scaler.Rent, &s.Services.Attention, s.Node.Shared.Model, nil
	}
	r, a, m, err := up(func(*Cmd) {})
	if err != nil || !r.Each || r.Window != 1 || r.Turns == nil || r.Foretell != nil || a.Before == nil || a.MaxSequences != 1 {
		t.Fatalf("%+v, %+v, %v", r, a, err)
	}
	write := func(hash string) {
		set := sps.Paper(r.System.Layers, r.System.Experts, m.Spec.Hidden)
		set.Model = hash
		one := sps.Prompt{Vector: make([]float32, m.Spec.Hidden), Activation: make([]float32, r.System.Layers*r.System.Experts)}
		one.Vector[0] = 1
		for l := range r.System.Layers {
			one.Activation[l*r.System.Experts+3] = 1
		}
		y, err := sps.New(set, []sps.Prompt{one})
		if err == nil {
			err = mapfile.WritePrompts(store, y)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	named := func(up *Cmd) { up.Similar = store }
	write("another")
	if _, _, _, err := up(named); cli.ExitCode(err) != cli.ExitUsage {
		t.Errorf("a store of another model: %v", err)
	}
	write(m.Hash)
	if r, _, _, err = up(named); err != nil {
		t.Fatal(err)
	}
	if foretold, err := r.Foretell([]uint32{5, 6}); err != nil || foretold[3] != 1 || foretold[4] != 0 {
		t.Errorf("%v, %v", foretold, err)
	}
	if _, err := r.Foretell(nil); err == nil {
		t.Error("a prompt without tokens is foretold")
	}
}
