package telemetry

import (
	"fmt"
	"net/http"
)

// Handler serves /metrics, /healthz and /readyz, and on the loopback Go's profiles beneath
// /debug/pprof/.
func (t *Telemetry) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", t.Page())
	mux.HandleFunc("GET /healthz", t.answer("live", Health.Live))
	mux.HandleFunc("GET /readyz", t.answer("ready", Health.Ready))
	if t.config.profilesBeside() {
		withProfiles(mux)
	}
	return mux
}

// answer returns a page that says word, or with status 503 what is missing.
func (t *Telemetry) answer(word string, ask func(Health) error) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		if err := t.askAll(ask); err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = fmt.Fprintf(w, "not %s:\n%v\n", word, err) // the client may be gone
			return
		}
		_, _ = fmt.Fprintln(w, word)
	}
}

// ask asks the health; before there is one the process is live and not ready.
func (t *Telemetry) ask(question func(Health) error) error {
	t.mu.Lock()
	health := t.health
	t.mu.Unlock()
	if health == nil {
		health = unknownHealth{}
	}
	return question(health)
}

type unknownHealth struct{}

// Live has nothing to object: the process runs.
func (unknownHealth) Live() error { return nil }

// Ready says no: it is not known what has to be ready.
func (unknownHealth) Ready() error { return fmt.Errorf("the process is still being put together") }
