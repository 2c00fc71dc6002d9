package clients

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// httpSetup returns a gateway's URL and a program; it skips the test without them.
func httpSetup(t *testing.T, variable, program string) (url, path string) {
	t.Helper()
	url = os.Getenv("SWITCHYARD_HTTP")
	if url == "" {
		t.Skip("SWITCHYARD_HTTP is not set: it is the URL of a running gateway, such as http://127.0.0.1:8080")
	}
	if named := os.Getenv(variable); named != "" {
		program = named
	}
	path, err := exec.LookPath(program)
	if err != nil {
		t.Skipf("%s is not here; install it, or name it in %s: %v", program, variable, err)
	}
	return url, path
}

// TestHTTPPython uses those Python clients of HTTP that are installed.
func TestHTTPPython(t *testing.T) {
	url, python := httpSetup(t, "SWITCHYARD_PYTHON", "python3")
	checkUses(t, output(t, python, "http_uses.py", url, model()))
}

// TestHTTPNode uses those of Node; SWITCHYARD_NODE_MODULES is the folder where npm has put them.
func TestHTTPNode(t *testing.T) {
	url, node := httpSetup(t, "SWITCHYARD_NODE", "node")
	c := command(t, node, "http_uses.mjs", url, model())
	if dir := os.Getenv("SWITCHYARD_NODE_MODULES"); dir != "" {
		here, err := os.Getwd()
		if err != nil {
			t.Fatal(err)
		}
		c.Args[1], c.Dir = here+"/http_uses.mjs", dir
	}
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	checkUses(t, string(out))
}

// checkUses wants each use to have gone as its client's documentation says.
func checkUses(t *testing.T, out string) {
	t.Helper()
	n := 0
	for lines := bufio.NewScanner(strings.NewReader(out)); lines.Scan(); n++ {
		var use struct {
			Client, Use string
			Error       *string
		}
		if err := json.Unmarshal(lines.Bytes(), &use); err != nil {
			t.Fatalf("reading %q: %v", lines.Text(), err)
		}
		if use.Error != nil {
			t.Errorf("%s, %s: %s", use.Client, use.Use, *use.Error)
		}
	}
	if n == 0 {
		t.Skip("no client is installed; the script says which there are")
	}
	t.Logf("%d uses", n)
}
