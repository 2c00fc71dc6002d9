package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/schemas"
	"github.com/switchyard/switchyard/services/gateway/internal/fake"
)

// tenants are those of a door whose keys are their names.
var tenants = []string{"acme", "beta", "default"}

// sharedDoor is a door of several tenants.
func sharedDoor(t *testing.T, u *fake.Upstream, changes ...func(*Config)) *Door {
	t.Helper()
	file, text := filepath.Join(t.TempDir(), "keys"), ""
	for _, tenant := range tenants {
		sum := sha256.Sum256([]byte(tenant))
		text += hex.EncodeToString(sum[:]) + " " + tenant + "\n"
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return newDoor(t, u, append(changes, func(c *Config) { c.Keys = file })...)
}

func as(d *Door, tenant, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	return ask(d, method, path, body, append(headers, "Authorization", "Bearer "+tenant)...)
}

// creating are the requests that leave an id.
var creating = map[string]struct{ path, body string }{
	"chat":        {"/v1/chat/completions", hi + "}"},
	"stream":      {"/v1/chat/completions", hi + `,"stream":true}`},
	"several":     {"/v1/completions", `{"model":"demo","prompt":"x","n":2}`},
	"completion":  {"/v1/completions", `{"model":"demo","prompt":"x"}`},
	"message":     {"/v1/messages", `{"model":"demo","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`},
	"response":    {"/v1/responses", `{"model":"demo","input":"x"}`},
	"events":      {"/v1/responses", `{"model":"demo","input":"x","stream":true}`},
	"background":  {"/v1/responses", `{"model":"demo","input":"x","background":true}`},
	"not kept":    {"/v1/responses", `{"model":"demo","input":"x","store":false}`},
	"nor streams": {"/v1/responses", `{"model":"demo","input":"x","store":false,"stream":true}`},
}

// idsOf are all ids that an answer tells, and those that a client could make of them.
func idsOf(w *httptest.ResponseRecorder) (ids []string) {
	seen := []string{w.Header().Get("X-Request-Id")}
	for _, line := range strings.Split(w.Body.String(), "\n") {
		var got struct {
			ID       string
			Response struct{ ID string }
			Message  struct{ ID string }
		}
		if json.Unmarshal([]byte(strings.TrimPrefix(line, "data: ")), &got) == nil {
			seen = append(seen, got.ID, got.Response.ID, got.Message.ID)
		}
	}
	for _, id := range seen {
		_, bare, _ := strings.Cut(id, "_")
		_, behind, _ := strings.Cut(id, "-")
		for _, one := range []string{id, bare, behind, strings.TrimPrefix(id, "chatcmpl-"), strings.TrimPrefix(id, "cmpl-")} {
			if one = strings.TrimSuffix(one, ".demo"); one == "" {
				continue
			}
			for _, mark := range []string{"", keptID, unkeptID} {
				ids = append(ids, "resp_"+mark+one+".demo", "resp_"+mark+one+"-1.demo")
			}
			ids = append(ids, one)
		}
	}
	return ids
}

// reading are the routes that take an id.
func reading(id string) [][2]string {
	return [][2]string{{"GET", "/v1/responses/" + id}, {"GET", "/v1/responses/" + id + "?stream=true"}, {"GET", "/v1/responses/" + id + "?stream=true&starting_after=2"}, {"POST", "/v1/responses/" + id + "/cancel"}, {"DELETE", "/v1/responses/" + id}}
}

// No tenant reaches another one's requests by an id, whatever answer told it: it is like one that is
// not there. Of its own a tenant reaches responses that are kept, and no other.
func TestOthersRequests(t *testing.T) {
	for name, c := range creating {
		for _, key := range []string{"", "order-1"} {
			for _, owner := range tenants {
				u := &fake.Upstream{}
				d := sharedDoor(t, u)
				w := as(d, owner, "POST", c.path, c.body, "Idempotency-Key", key)
				if w.Code != 200 {
					t.Fatalf("%s: %d %s", name, w.Code, w.Body)
				}
				kept := name == "response" || name == "events" || name == "background"
				for _, other := range tenants {
					found := 0
					for _, id := range idsOf(w) {
						for _, route := range reading(id) {
							if other == owner && kept && route[0] == "DELETE" {
								continue
							}
							got := as(d, other, route[0], route[1], "")
							none := as(d, other, route[0], strings.Replace(route[1], id, "resp_none.demo", 1), "")
							switch {
							case got.Code == 200:
								found++
							case got.Code != 404 || strings.ReplaceAll(got.Body.String(), id, "") != strings.ReplaceAll(none.Body.String(), "resp_none.demo", ""):
								t.Errorf("%s of %s: %s %v: %d %s, and of one that is not there %s", name, owner, other, route, got.Code, got.Body, none.Body)
							}
						}
					}
					if want := other == owner && kept; (found > 0) != want {
						t.Errorf("%s of %s: %s reaches it by %d ways", name, owner, other, found)
					}
				}
				if !kept && len(u.Cancelled()) > 0 {
					t.Errorf("%s: cancelled %v", name, u.Cancelled())
				}
			}
		}
	}
}

// What is deleted is gone for its tenant, too.
func TestDeleteResponse(t *testing.T) {
	d := sharedDoor(t, &fake.Upstream{})
	var made struct{ ID string }
	if err := json.Unmarshal(as(d, "acme", "POST", "/v1/responses", `{"model":"demo","input":"x"}`).Body.Bytes(), &made); err != nil {
		t.Fatal(err)
	}
	if w := as(d, "beta", "DELETE", "/v1/responses/"+made.ID, ""); w.Code != 404 {
		t.Errorf("another tenant: %d %s", w.Code, w.Body)
	}
	if w := as(d, "acme", "DELETE", "/v1/responses/"+made.ID, ""); w.Code != 200 || w.Body.String() != `{"id":"`+made.ID+`","object":"response","deleted":true}` {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	for _, method := range []string{"GET", "DELETE"} {
		if w := as(d, "acme", method, "/v1/responses/"+made.ID, ""); w.Code != 404 {
			t.Errorf("%s afterwards: %d %s", method, w.Code, w.Body)
		}
	}
	if w := as(d, "acme", "POST", "/v1/responses", `{"model":"demo","input":"x","background":true,"store":false}`); w.Code != 400 || !strings.Contains(w.Body.String(), `"param":"background"`) {
		t.Errorf("in the background without store: %d %s", w.Code, w.Body)
	}
}

// A key names one request of a tenant, at any gateway of the same services, and no other request has
// its id, whatever keys others choose.
func TestIdempotencyKeys(t *testing.T) {
	u := &fake.Upstream{}
	one, other := sharedDoor(t, u), sharedDoor(t, u)
	asked := func(d *Door, tenant, key, body string) (ids []string) {
		t.Helper()
		before, _ := u.Asked()
		if w := as(d, tenant, "POST", "/v1/completions", body, "Idempotency-Key", key); w.Code != 200 {
			t.Fatalf("%q: %d %s", key, w.Code, w.Body)
		}
		after, _ := u.Asked()
		for _, p := range after[len(before):] {
			ids = append(ids, p.RequestId)
			if err := schemas.CheckRequestID(p.RequestId); err != nil {
				t.Errorf("%q: %v", key, err)
			}
		}
		slices.Sort(ids)
		return ids
	}
	const single, double = `{"model":"demo","prompt":"x"}`, `{"model":"demo","prompt":"x","n":2}`
	long := strings.Repeat("k", 130)
	keys := []string{"ord", "ord-1", "ord-1-1", "r-ord", "u-ord", long, long + "a", long + "b", strings.Repeat("ä", 255), `"8e03978e-40d5-43e8-bc93-6894a57f9324"`, "8e03978e-40d5-43e8-bc93-6894a57f9324", "a b", "a.b", "*", ">", "a/b?c", "é", "日本"}
	seen := map[string]string{}
	for _, tenant := range tenants {
		for _, key := range keys {
			ids := asked(one, tenant, key, double)
			if again := asked(other, tenant, key, double); fmt.Sprint(again) != fmt.Sprint(ids) || len(ids) != 2 {
				t.Errorf("%s %q: %v, and at another gateway %v", tenant, key, ids, again)
			}
			for i, id := range ids {
				what := fmt.Sprint(tenant, " ", key, " ", i)
				if before := seen[id]; before != "" {
					t.Errorf("%s has the id of %s", what, before)
				}
				seen[id] = what
			}
		}
	}
	for _, key := range keys { // a tenant that takes what it knows of another one's ids for a key
		for _, id := range asked(one, "acme", key, single) {
			if theirs := asked(one, "default", id, single); theirs[0] == id {
				t.Errorf("default has acme's id by the key %q", id)
			}
		}
	}
	if w := as(one, "acme", "POST", "/v1/completions", single, "Idempotency-Key", strings.Repeat("ä", 256)); w.Code != 400 || !strings.Contains(w.Body.String(), `"param":"Idempotency-Key"`) {
		t.Errorf("a key of 256 characters: %d %s", w.Code, w.Body)
	}
	elsewhere := sharedDoor(t, &fake.Upstream{Secret: "another"})
	w, v := as(one, "acme", "POST", "/v1/completions", single, "Idempotency-Key", "ord"), as(elsewhere, "acme", "POST", "/v1/completions", single, "Idempotency-Key", "ord")
	if w.Header().Get("X-Request-Id") == v.Header().Get("X-Request-Id") {
		t.Error("an id follows from tenant and key alone")
	}
}

// A tenant has at most half of the places for answers, and a request that is answered without the
// services has none.
func TestPlacesOfTenants(t *testing.T) {
	u := &fake.Upstream{Holds: make(chan struct{})}
	d := sharedDoor(t, u, func(c *Config) { c.MaxStreams = 8 })
	var held sync.WaitGroup
	for range 4 {
		held.Go(func() { as(d, "acme", "POST", "/v1/chat/completions", hi+"}") })
	}
	testkit.Eventually(t, "four are under way", func() bool { return d.streams.Had() == 4 })
	for name, c := range creating {
		if w := as(d, "acme", "POST", c.path, c.body); w.Code != 429 || !strings.Contains(w.Body.String(), "at most half of them of one tenant") {
			t.Errorf("%s beyond its tenant's half: %d %s", name, w.Code, w.Body)
		}
	}
	for _, path := range []string{"/tokenize", "/v1/messages/count_tokens"} {
		if w := as(d, "acme", "POST", path, `{"model":"demo","prompt":"x","messages":[{"role":"user","content":"x"}]}`); w.Code == 200 {
			t.Errorf("%s beyond it: %s", path, w.Body)
		}
	}
	if w := as(d, "acme", "POST", "/v1/chat/completions", hi+`,"n":5}`); w.Code != 400 {
		t.Errorf("more than it may ever have: %d %s", w.Code, w.Body)
	}
	for _, unserved := range []string{`{"model":"none","prompt":"x","n":8}`, `{"model":"none","n":8,"messages":[{"role":"user","content":"x"}]}`} {
		for _, path := range []string{"/v1/completions", "/v1/chat/completions", "/tokenize"} {
			if w := as(d, "beta", "POST", path, unserved); w.Code == 429 || d.streams.Had() != 4 {
				t.Errorf("%s for no model: %d, and %d places are taken", path, w.Code, d.streams.Had())
			}
		}
	}
	held.Go(func() {
		if w := as(d, "beta", "POST", "/v1/completions", `{"model":"demo","prompt":"x","n":2}`); w.Code != 200 {
			t.Errorf("another tenant: %d %s", w.Code, w.Body)
		}
	})
	testkit.Eventually(t, "another one has its share", func() bool { return d.streams.Had() == 6 })
	close(u.Holds)
	held.Wait()
	if d.streams.Had() != 0 {
		t.Errorf("%d places stay taken", d.streams.Had())
	}
}

// endless is a body of which nothing more comes until it is closed.
type endless struct {
	first io.Reader
	end   chan struct{}
}

func (e *endless) Read(p []byte) (int, error) {
	if n, err := e.first.Read(p); err == nil {
		return n, nil
	}
	<-e.end
	return 0, io.EOF
}

// Bodies that do not end, large or small, take at most half of the room for bodies.
func TestRoomOfTenants(t *testing.T) {
	for name, size := range map[string]int{"small": 1, "large": 3 << 20} {
		d := sharedDoor(t, &fake.Upstream{}, func(c *Config) { c.MaxBody, c.MaxConns = 4<<20, 100 })
		end, refused := make(chan struct{}), make(chan struct{}, 200)
		var sent sync.WaitGroup
		for range cap(refused) {
			sent.Go(func() {
				r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", &endless{strings.NewReader(strings.Repeat(" ", size)), end})
				r.Header.Set("Authorization", "Bearer acme")
				w := httptest.NewRecorder()
				if d.ServeHTTP(w, r); w.Code == 429 {
					refused <- struct{}{}
				}
			})
		}
		testkit.Eventually(t, name+": all are read or refused", func() bool {
			return len(refused)+int(d.reading.Had()) == cap(refused) && (size == 1 || d.bodies.Had() >= bodyBytes/4)
		})
		if w := as(d, "beta", "POST", "/v1/chat/completions", hi+`,"prediction":"`+strings.Repeat("x", 1<<20)+`"}`); w.Code != 200 {
			t.Errorf("%s: another tenant: %d %.200s", name, w.Code, w.Body)
		}
		close(end)
		sent.Wait()
		if d.reading.Had() != 0 || d.bodies.Had() != 0 || len(refused) == 0 {
			t.Errorf("%s: %d bodies and %d bytes stay taken, %d were refused", name, d.reading.Had(), d.bodies.Had(), len(refused))
		}
	}
}
