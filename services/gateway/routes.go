package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/pkg/request/client"
	"github.com/switchyard/switchyard/schemas"
	"github.com/switchyard/switchyard/services/gateway/anthropic"
	"github.com/switchyard/switchyard/services/gateway/apikeys"
	"github.com/switchyard/switchyard/services/gateway/openai"
	"github.com/switchyard/switchyard/services/gateway/upstream"
)

// call is a request whose client is known.
type call struct {
	w    http.ResponseWriter
	r    *http.Request
	flow schemas.Flow
	key  apikeys.Key
	// id is the services' request id, and the client's.
	id string
	// room is what it has of the memory for bodies.
	room *room
}

// to is the model and the tenant of a call's request. Several clients may send one Idempotency-Key.
func (c *call) to(m upstream.Model) upstream.To {
	to := upstream.To{Model: m.Name, Flow: c.flow, Shared: c.r.Header.Get(headerIdempotency) != ""}
	if a, is := c.w.(*answering); is {
		to.Allowed = a.allow
	}
	return to
}

// action answers a call. An error of it is the answer, unless some of that is sent.
type action func(*call) error

// route is a path with a method, and what answers it.
type route struct {
	method, path string
	handler      http.Handler
}

// table are what clients can ask.
func (d *Door) table() (all []route) {
	api := func(method, path string, do action) {
		all = append(all, route{method, path, d.guarded(do)})
	}
	api("GET", "/v1/models", d.listModels)
	api("GET", "/v1/models/{name...}", d.showModel)
	api("POST", "/v1/chat/completions", mayAsk(d.chat))
	api("POST", "/v1/completions", mayAsk(d.complete))
	api("POST", "/v1/responses", mayAsk(d.respond))
	api("GET", "/v1/responses/{id}", mayAsk(d.showResponse))
	api("DELETE", "/v1/responses/{id}", mayAsk(d.deleteResponse))
	api("POST", "/v1/responses/{id}/cancel", mayAsk(d.cancelResponse))
	api("POST", "/v1/messages", mayAsk(d.message))
	api("POST", "/v1/messages/count_tokens", d.countTokens)
	api("POST", "/tokenize", d.tokenize)
	api("POST", "/detokenize", d.detokenize)
	api("GET", "/tokenizer_info", d.tokenizerInfo)
	api("GET", "/metrics", d.showMetrics())
	return append(all,
		route{"GET", "/health", http.HandlerFunc(d.ready)}, route{"GET", "/readyz", http.HandlerFunc(d.ready)},
		route{"GET", "/healthz", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { plain(w, http.StatusOK, "live\n") })})
}

// routes answer what clients ask. A path that has another method says which.
func (d *Door) routes() http.Handler {
	mux, methods := http.NewServeMux(), map[string][]string{}
	for _, r := range d.table() {
		mux.Handle(r.method+" "+r.path, r.handler)
		if methods[r.path] = append(methods[r.path], r.method); r.method == http.MethodGet {
			methods[r.path] = append(methods[r.path], http.MethodHead)
		}
	}
	for path, has := range methods {
		mux.Handle(path, d.guarded(func(c *call) error {
			allow := strings.Join(has, ", ")
			return &openai.Error{Status: http.StatusMethodNotAllowed, Type: openai.InvalidRequest, Code: "method_not_allowed", Message: fmt.Sprintf("%s %.200s is not served; it has %s", c.r.Method, c.r.URL.Path, allow), Allow: allow}
		}))
	}
	unknown := d.guarded(unknownURL)
	mux.Handle("/", unknown)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodConnect || !plainPath(r.URL.Path) { // the mux answers these itself, in HTML
			unknown.ServeHTTP(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// unknownURL answers paths that there are not, and those of which a client is not to know.
func unknownURL(c *call) error {
	return &openai.Error{Status: http.StatusNotFound, Type: openai.InvalidRequest, Code: "unknown_url", Message: fmt.Sprintf("Unknown request URL: %s %.200s", c.r.Method, c.r.URL.Path)}
}

// formOf is the form in which a request's client reads errors; nil: OpenAI's.
func formOf(r *http.Request) func(*openai.Error) any {
	if r.URL.Path == messagesPath || strings.HasPrefix(r.URL.Path, messagesPath+"/") || isAnthropic(r) {
		return anthropic.ErrorBody
	}
	return nil
}

// messagesPath begins the paths of Anthropic's API.
const messagesPath = "/v1/messages"

// isAnthropic reports whether a client is one of Anthropic's API.
func isAnthropic(r *http.Request) bool { return r.Header.Get("Anthropic-Version") != "" }

// plainPath says that a path has no empty element, and none that leads back.
func plainPath(p string) bool {
	clean := path.Clean(p)
	return p == clean || p == clean+"/"
}

// guarded answers calls of clients that are known. A panic ends the call alone.
func (d *Door) guarded(do action) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, form := &call{w: w, r: r}, formOf(r)
		defer func() { lineOf(w).ID = c.id }() // that of an Idempotency-Key is known late
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			if err, is := p.(error); is && errors.Is(err, http.ErrAbortHandler) {
				panic(p)
			}
			d.Telemetry.Metrics.Panics.Inc()
			d.Logger.Error("a request made the gateway panic", "path", r.URL.Path, "request", c.id, "panic", p)
			if begun(w) {
				panic(http.ErrAbortHandler) // its client sees that it is not whole
			}
			c.refuse(openai.Fault(c.id), form)
		}()
		if err := d.identify(c); err != nil {
			c.refuse(err, form)
			return
		}
		c.room = d.roomOf(d.sharer(c))
		defer c.room.keep(0)
		ctx := upstream.As(context.WithValue(r.Context(), callKey{}, c), c.flow)
		if c.key.Right == apikeys.Operator { // else whoever asks could have everything traced, or nothing
			ctx = telemetry.Propagator{}.Extract(ctx, nats.Header{"traceparent": r.Header["Traceparent"]})
		}
		c.r = r.WithContext(ctx)
		if err := do(c); err != nil {
			c.refuse(d.refusal(ctx, err, 0), form)
		}
	})
}

// refuse answers with an error.
func (c *call) refuse(e *openai.Error, form func(*openai.Error) any) {
	lineOf(c.w).Code = e.Code
	openai.Refuse(c.w, e, form)
}

// identify finds a call's tenant and class by its key, and gives the call an id.
func (d *Door) identify(c *call) (wrong *openai.Error) {
	c.id = newID()
	c.w.Header().Set("X-Request-Id", c.id)
	if c.key, wrong = d.keys.of(c.r, time.Now()); wrong != nil {
		return wrong
	}
	c.flow = c.key.Flow
	line := lineOf(c.w)
	line.Tenant, line.Class = c.flow.Tenant, string(c.flow.Class)
	if d.keys.file != "" {
		line.Key = c.key.ID()
	}
	if own := connOf(c.r); own != nil && !own.of.knows(own, d.sharer(c)) {
		c.w.Header().Set("Connection", "close")
		return openai.ErrorOf(&client.Error{Code: client.CodeOverloaded, RetryAfter: time.Second, Message: "the tenant has as many connections as it may: at most half of --http-max-conns, and less while many ask"}, 0)
	}
	return checkKey(c.r.Header.Get(headerIdempotency))
}

// ready reports whether a model can be asked.
func (d *Door) ready(w http.ResponseWriter, _ *http.Request) {
	if err := d.Ready(); err != nil {
		plain(w, http.StatusServiceUnavailable, "not ready:\n"+err.Error()+"\n")
		return
	}
	plain(w, http.StatusOK, "ready\n")
}

func plain(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text) // the client may be gone
}

// showMetrics shows the process's metrics, which tell how much other tenants ask for, to operators.
func (d *Door) showMetrics() action {
	handler := d.Telemetry.Page()
	return func(c *call) error {
		if c.key.Right != apikeys.Operator {
			return unknownURL(c)
		}
		handler.ServeHTTP(c.w, c.r)
		return nil
	}
}
