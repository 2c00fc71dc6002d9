package main

import (
	"bytes"
	"context"
	"net"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/services/switchyard/cli"
)

// A port for a broker that there is not, that is taken, or that others reach is refused.
func TestKafkaListenRefused(t *testing.T) {
	t.Parallel()
	stopped, stop := context.WithCancel(t.Context())
	stop()
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }() // nobody has connected
	for _, tt := range []struct {
		want string
		args []string
	}{
		{"--scaling none", []string{"--kafka-listen", "127.0.0.1:1", "--scaling", "none"}},
		{"--kafka names another", []string{"--kafka-listen", "127.0.0.1:1", "--kafka", "127.0.0.1:2"}},
		{"must be HOST:PORT", []string{"--kafka-listen", "here"}},
		{"on the loopback", []string{"--kafka-listen", "0.0.0.0:0"}},
		{"address already in use", []string{"--kafka-listen", taken.Addr().String()}},
	} {
		var out bytes.Buffer
		var errOut sharedText
		args := append([]string{"up", "--listen", testkit.FreeAddr(t), "--http", "off"}, tt.args...)
		code := runUntil(stopped, args, cli.Stdio{In: strings.NewReader(""), Out: &out, Err: &errOut})
		if code != cli.ExitUsage || !strings.Contains(errOut.String(), tt.want) {
			t.Errorf("%v: code %d, %s", tt.args, code, errOut.String())
		}
	}
}
