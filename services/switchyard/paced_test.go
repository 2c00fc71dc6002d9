package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/goldens"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/schemas"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
	"github.com/switchyard/switchyard/services/switchyard/top"
)

// TestPacedIsDirect wants from paced hosts the bits of direct calls, also from hosts that
// hold fewer experts than they serve, and figures that say whose they are.
func TestPacedIsDirect(t *testing.T) {
	const hosts = 3
	for _, tc := range []struct{ dir, profile, memory, offload string }{
		{"../../models/demo", "a6000-mixtral", "10GB", "lru"},
		{goldens.Dir("qwen2_moe-mixed"), "a6000-llama-4-scout", "0", "none"},
	} {
		want := directAnswers(t, tc.dir, tensor.BF16)
		t.Run(filepath.Base(tc.dir), func(t *testing.T) {
			t.Parallel()
			y := startPipeline(t, tc.dir, tensor.BF16, schemas.HopsUnacked, hosts, func(up *UpCmd) {
				up.Device, up.Profile, up.ExpertMemory, up.Offload, up.Grouping = "paced", tc.profile, tc.memory, tc.offload, "expert"
			})
			compareAnswers(t, y, hosts, want)
			wantPaced(t, y, hosts, "paced:"+tc.profile)
		})
	}
}

// wantPaced wants all expert hosts to be such devices that have computed.
func wantPaced(t *testing.T, y *cluster.Cluster, hosts int, device string) {
	t.Helper()
	conn, err := y.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	r := top.NewReader(conn.NATS(), conn.JetStream(), y.Settings.Node.Names())
	defer r.Close()
	s, err := r.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, m := range s.Members {
		if m.Device == device && m.Stats["paced_loads_total"] > 0 {
			found++
		}
	}
	if text := s.View(nil); found != hosts || !strings.Contains(text, device+"  experts take that device's time") {
		t.Errorf("%d hosts are %s, want %d, in\n%s", found, device, hosts, text)
	}
}
