package main

import (
	"strings"
	"testing"
	"time"
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
