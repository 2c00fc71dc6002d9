package gateway

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/switchyard/switchyard/schemas"
	"github.com/switchyard/switchyard/services/gateway/openai"
	"github.com/switchyard/switchyard/services/gateway/upstream"
)

// headerIdempotency names a request, so that asking again does not compute again.
const headerIdempotency = "Idempotency-Key"

// mostKey is how many characters a client's key may have.
const mostKey = 255

// Routes that take an id find nothing but requests whose ids begin so: those of responses that are
// kept. Nobody is told an id of the others that begins so.
const (
	keptID   = "r-"
	unkeptID = "u-"
)

// newID is an id that cannot be guessed.
func newID() string { return rand.Text() }

// keyed is the id of a tenant's key. All gateways make the same one, who have the secret from the
// model's tokenizers, and nobody else can: so no tenant's request takes the place of another's.
func keyed(m upstream.Model, tenant, kind, key string) string {
	mac := hmac.New(sha256.New, []byte(m.Secret))
	for _, part := range []string{tenant, kind, key} {
		_, _ = fmt.Fprintf(mac, "%d:%s", len(part), part) // a hash takes everything
	}
	return base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(mac.Sum(nil)[:20])
}

// checkKey says why a client's key cannot be one.
func checkKey(key string) *openai.Error {
	if n := utf8.RuneCountInString(key); n > mostKey {
		return openai.Bad(headerIdempotency, "%s has %d characters; it may have %d", headerIdempotency, n, mostKey)
	}
	return nil
}

// claim gives a call the id that its key has at a model, or leaves it the one that it has.
func (c *call) claim(m upstream.Model, kind string) {
	if key := c.r.Header.Get(headerIdempotency); key != "" {
		c.id = keyed(m, c.flow.Tenant, kind, key)
	}
	c.w.Header().Set("X-Request-Id", c.id)
}

// several is the id of one of a call's answers.
func (c *call) several(answer int) string {
	if answer == 0 {
		return c.id
	}
	return c.id + "-" + strconv.Itoa(answer)
}

// claimResponse gives a call the ids of its response, public as its client reads it and request in
// the services. Of one that is not kept nobody is told the latter.
func (c *call) claimResponse(m upstream.Model, kept bool, now int64) (public, request string) {
	key := c.r.Header.Get(headerIdempotency)
	if public = newID() + strconv.FormatInt(now, 16); key != "" { // so that every gateway knows when it was
		public = keyed(m, c.flow.Tenant, "response", key)
	}
	if request = keptID + public; !kept {
		request = unkeptID + newID()
	}
	if key != "" && !kept {
		request, public = unkeptID+keyed(m, c.flow.Tenant, "unkept", key), keyed(m, c.flow.Tenant, "shown", key)
	}
	if c.id = request; !kept {
		c.id = public
	}
	c.w.Header().Set("X-Request-Id", c.id)
	return public, request
}

// responseID is a response's: what the request's id has behind its beginning, and the model whose log
// has it.
func responseID(public, model string) string { return "resp_" + public + "." + model }

// ofResponse takes a response's id apart.
func ofResponse(id string) (request, model string, created int64, err error) {
	rest, is := strings.CutPrefix(id, "resp_")
	public, model, named := strings.Cut(rest, ".")
	request = keptID + public
	if !is || !named || public == "" || schemas.CheckRequestID(request) != nil || model == "" || schemas.ModelToken(model) != model {
		return "", "", 0, notFound(id)
	}
	if len(public) > timeDigits {
		created, err = strconv.ParseInt(public[len(public)-timeDigits:], 16, 64)
	}
	if err != nil || created < 0 {
		created = 0 // of the client's own key, which does not say when
	}
	return request, model, created, nil
}

// timeDigits are those of seconds since 1970 in hex, for the next centuries.
const timeDigits = 8
