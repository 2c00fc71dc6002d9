package gateway

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/switchyard/switchyard/pkg/process/lifecycle"
	"github.com/switchyard/switchyard/pkg/request/client"
	"github.com/switchyard/switchyard/schemas"
	"github.com/switchyard/switchyard/services/gateway/apikeys"
	"github.com/switchyard/switchyard/services/gateway/openai"
	"github.com/switchyard/switchyard/services/gateway/upstream"
)

// keys are the API keys that clients have, by their hashes.
type keys struct {
	file string // empty: there are none, and everybody is the default tenant
	all  atomic.Pointer[map[apikeys.Hash]apikeys.Key]
}

// load reads the file, if there is one. What cannot be used changes nothing, and neither does what may be half
// of a file.
func (k *keys) load() error {
	if k.file == "" {
		return nil
	}
	data, err := os.ReadFile(k.file)
	if err != nil {
		return fmt.Errorf("reading --http-keys: %w", err)
	}
	list, err := apikeys.Parse(data)
	if before := k.all.Load(); err == nil && before != nil && len(*before) > 0 {
		err = apikeys.CheckWhole(data)
	}
	if err != nil {
		return fmt.Errorf("reading --http-keys %s: %w", k.file, err)
	}
	all := make(map[apikeys.Hash]apikeys.Key, len(list))
	for _, one := range list {
		all[one.Hash] = one
	}
	k.all.Store(&all)
	return nil
}

// secretOf is a request's key. OpenAI's clients send it as a bearer, Anthropic's and Azure's by itself.
func secretOf(h http.Header) string {
	scheme, key, _ := strings.Cut(strings.TrimSpace(h.Get("Authorization")), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		key = cmp.Or(h.Get("X-Api-Key"), h.Get("Api-Key"))
	}
	return strings.TrimSpace(key)
}

// of is what is known of a request's key.
func (k *keys) of(r *http.Request, now time.Time) (apikeys.Key, *openai.Error) {
	if k.file == "" {
		return apikeys.Key{Flow: schemas.DefaultFlow(), Right: apikeys.Operator}, nil
	}
	secret := secretOf(r.Header)
	var key apikeys.Key
	known := false
	if all := k.all.Load(); all != nil && secret != "" {
		// What is compared are hashes, of which the time tells nothing.
		key, known = (*all)[apikeys.HashOf(secret)]
	}
	wrong := &openai.Error{Status: http.StatusUnauthorized, Type: openai.Authentication, Code: "invalid_api_key"}
	switch {
	case !known:
		wrong.Message = "Incorrect API key provided: send a known one as Authorization: Bearer KEY"
	case key.Expired(now):
		wrong.Message = "The API key expired at " + key.Expires.UTC().Format(time.RFC3339) + ": ask for another one"
	default:
		return key, nil
	}
	return apikeys.Key{}, wrong
}

// mayAsk keeps keys from an action that may only read.
func mayAsk(do action) action {
	return func(c *call) error {
		if c.key.Right == apikeys.Read {
			return &openai.Error{Status: http.StatusForbidden, Type: openai.InvalidRequest, Code: "insufficient_permissions", Message: "The API key has the right to read alone: it may list models and count tokens"}
		}
		return do(c)
	}
}

// model is the one of a name, unless the call's key may not use it: then it is like one that is not there.
func (d *Door) model(ctx context.Context, c *call, name string) (upstream.Model, error) {
	return d.findModel(ctx, c, name, false)
}

// askable is the model of a name if it can answer now. What is known to come to nothing is refused, so that its
// client asks again, or another gateway.
func (d *Door) askable(ctx context.Context, c *call, name string) (upstream.Model, error) {
	return d.findModel(ctx, c, name, true)
}

func (d *Door) findModel(ctx context.Context, c *call, name string, toAsk bool) (upstream.Model, error) {
	m, err := d.Upstream.Find(ctx, name, toAsk)
	lineOf(c.w).Model = m.Name
	known := err == nil || hasCode(err, client.CodeModelNotReady)
	if len(c.key.Models) == 0 || known && c.key.Uses(m.Name) || !known && !hasCode(err, client.CodeModelNotFound) {
		return m, err
	}
	return upstream.Model{}, &client.Error{Code: client.CodeModelNotFound, Message: fmt.Sprintf("The model %.100q does not exist or the API key may not use it; it may use %s", name, strings.Join(c.key.Models, ", "))}
}

// models are those that are served, and that the call's key may use.
func (d *Door) models(c *call) (list []upstream.Model) {
	for _, m := range d.Upstream.Models() {
		if c.key.Uses(m.Name) {
			list = append(list, m)
		}
	}
	return list
}

// certificate is the one that clients are shown.
type certificate struct {
	cert, key string // files; empty: there is no TLS
	now       atomic.Pointer[tls.Certificate]
}

// load reads the files, if there are any. A pair that does not fit changes nothing.
func (c *certificate) load() error {
	if c.cert == "" {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		return fmt.Errorf("reading --http-cert %s and --http-key %s: %w", c.cert, c.key, err)
	}
	c.now.Store(&pair)
	return nil
}

// config is for the server.
func (c *certificate) config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.now.Load(), nil }}
}

// watches are what follows from files while the gateway runs.
func (s *Service) watches() (all []*lifecycle.Watch) {
	if k := s.door.keys; k.file != "" {
		all = append(all, lifecycle.NewWatch("--http-keys", k.load, k.file))
	}
	if c := &s.certificate; c.cert != "" {
		all = append(all, lifecycle.NewWatch("the certificate of --http-cert", c.load, c.cert, c.key))
	}
	return all
}
