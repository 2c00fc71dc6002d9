package main

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
)

// up --policy remoe has hosts for what it rents, and refuses what cannot be before anything starts.
func TestRentFlags(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		set  func(*UpCmd)
		code int
		says string
	}{
		{"by default", func(*UpCmd) {}, exitDone, ""},
		{"on paced hosts", func(up *UpCmd) { up.Device, up.Platform = "paced", "lambda" }, exitDone, ""},
		{"no plan", func(up *UpCmd) { up.SLOTPOT = time.Microsecond }, exitInfeasible, "constraint 10c"},
		{"no plan, and yet", func(up *UpCmd) { up.SLOTPOT, up.BestEffort = time.Microsecond, true }, exitDone, ""},
		{"no objective", func(up *UpCmd) { up.SLOTTFT = 0 }, exitUsage, "the SLO is 0 s"},
		{"no tokens", func(up *UpCmd) { up.SLOPrompt = 0 }, exitUsage, "must have one or more"},
		{"a free GPU", func(up *UpCmd) { up.GPUPrice = 0 }, exitUsage, "the GPU's memory costs 0 times"},
		{"no platform", func(up *UpCmd) { up.Platform = "moon" }, exitUsage, `no platform and no file "moon"`},
		{"a profile", func(up *UpCmd) { up.Device, up.Profile = "paced", "a6000-mixtral" }, exitUsage, "--profile a6000-mixtral; leave"},
		{"a scaler", func(up *UpCmd) { up.Scaling = "eplb" }, exitUsage, "--scaling eplb"},
		{"offloading", func(up *UpCmd) { up.Offload = "lru" }, exitUsage, "--offload lru"},
		{"replicas", func(up *UpCmd) { up.Replication = 2 }, exitUsage, "--replication"},
		{"no store", func(up *UpCmd) { up.Similar = "nowhere" }, exitUsage, "--prompt-store: reading prompts"},
		{"users", func(up *UpCmd) { up.Auth.on = true }, exitUsage, "--auth yet"},
	} {
		s, err := inProcess(t.Context(), quietEnv(), func(up *UpCmd) {
			up.Threads, up.Policy, up.Scaling = 1, "remoe", autoScaling
			tc.set(up)
		})
		if code := exitCode(err); code != tc.code || err != nil && !strings.Contains(err.Error(), tc.says) {
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
	up := func(change func(*UpCmd)) (*scaler.Rent, *attention.Config, *model.Model, error) {
		s, err := inProcess(t.Context(), quietEnv(), func(up *UpCmd) {
			up.Threads, up.Policy, up.Scaling, up.PlanFor = 1, "remoe", autoScaling, perRequest
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
	r, a, m, err := up(func(*UpCmd) {})
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
	named := func(up *UpCmd) { up.Similar = store }
	write("another")
	if _, _, _, err := up(named); exitCode(err) != exitUsage {
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
