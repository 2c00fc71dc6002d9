package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// probe exits with what the page says.
func TestProbe(t *testing.T) {
	pages := http.NewServeMux()
	pages.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("live\n")) })
	pages.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte("not ready:\nno gate\n"))
	})
	srv := httptest.NewServer(pages)
	defer srv.Close()
	_, port, _ := strings.Cut(srv.Listener.Addr().String(), ":")
	for _, tc := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"lives", []string{"--live", "--metrics-addr", "127.0.0.1:" + port}, exitDone, "live"},
		{"of all interfaces", []string{"--live", "--metrics-addr", ":" + port}, exitDone, "live"},
		{"of all interfaces by number", []string{"--live", "--metrics-addr", "0.0.0.0:" + port}, exitDone, "live"},
		{"not ready", []string{"--metrics-addr", ":" + port}, exitFailed, "no gate"},
		{"nobody there", []string{"--metrics-addr", "127.0.0.1:1"}, exitFailed, "no answer at --metrics-addr"},
		{"no address", []string{"--metrics-addr", "9090"}, exitUsage, "it must be HOST:PORT"},
		{"nowhere", nil, exitUsage, "--metrics-addr"},
	} {
		got := invoke("", append([]string{"probe"}, tc.args...)...)
		if got.code != tc.code || !strings.Contains(got.out+got.err, tc.want) {
			t.Errorf("%s: %+v, want %q", tc.name, got, tc.want)
		}
	}
}
