package model

import (
	"encoding/json"
	"flag"
	"os"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the digests of the demo model anew")

// The digests in the binary are those of the demo model's tensors.
func TestDemoDigests(t *testing.T) {
	disk, err := Open("../../../models/demo")
	if err != nil {
		t.Fatal(err)
	}
	closeAfter(t, disk)
	if *rewrite {
		sums := map[string]string{}
		for _, d := range disk.Digests() {
			sums[d.Name] = d.Sum.String()
		}
		data, _ := json.MarshalIndent(sums, "", " ")
		if err := os.WriteFile("../../../models/demo-digests.json", append(data, '\n'), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	m, err := Demo()
	if err != nil {
		t.Fatal(err)
	}
	closeAfter(t, m)
	if m.Hash != disk.Hash || len(m.Digests()) != len(disk.Digests()) {
		t.Errorf("in the binary %s, on disk %s; write the digests anew with -rewrite", m.Hash, disk.Hash)
	}
}
