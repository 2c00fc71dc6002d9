package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// kubectl notes what it is asked, and knows two gates and an expert host.
const kubectl = `#!/usr/bin/env bash
echo "$*" >>"$ASKED"
case "$* " in
*"get pods"*switchyard-gate*switchyard-attention*) echo pod/expert-a pod/gate-a pod/gate-b ;;
*"get pods"*switchyard-gate*) echo pod/gate-a pod/gate-b ;;
esac
`

// TestKubernetesFaults has the example do each fault to pods that are not there.
func TestKubernetesFaults(t *testing.T) {
	for _, tc := range []struct{ name, fault, asked, wrong string }{
		{"kill", "kill gate 1 0.8", "delete --force --grace-period=0 pod/gate-b", ""},
		{"drain", "drain gate 0 0", "delete pod/gate-a", ""},
		{"storm", "storm gate * 1.5", "delete --force --grace-period=0 pod/gate-a pod/gate-b", ""},
		{"storm on all", "storm * * 1.5", "delete --force --grace-period=0 pod/expert-a pod/gate-a pod/gate-b", ""},
		{"no such replica", "kill gate 2 1", "", "there is no gate 2"},
		{"no such service", "kill scaler 0 1", "", "there is no scaler 0"},
		{"no such kind", "hang gate 0 1", "", "hang cannot be done here: set SWITCHYARD_CHAOS_KINDS"},
		{"no seconds", "kill gate 0", "", "a kind, a service, a replica and seconds"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			asked := filepath.Join(dir, "asked")
			if err := os.WriteFile(filepath.Join(dir, "kubectl"), []byte(kubectl), 0o700); err != nil {
				t.Fatal(err)
			}
			t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
			t.Setenv("ASKED", asked)
			out, err := exec.CommandContext(t.Context(), "faults/kubernetes", strings.Fields(tc.fault)...).CombinedOutput()
			if (err != nil) != (tc.wrong != "") || !strings.Contains(string(out), tc.wrong) {
				t.Errorf("%v: %s", err, out)
			}
			if got, _ := os.ReadFile(asked); tc.asked != "" && !strings.Contains(string(got), "\n"+tc.asked+"\nwait deployment ") {
				t.Errorf("kubectl was asked\n%swant %s", got, tc.asked)
			}
		})
	}
}
