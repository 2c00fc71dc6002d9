package doors

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/services/gateway"
	"github.com/switchyard/switchyard/services/gateway/upstream"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest"
)

// sibling is another gateway of the same services, whose clients' keys are the names of their tenants.
func sibling(t *testing.T, d *door) *httptest.Server {
	t.Helper()
	file, text := filepath.Join(t.TempDir(), "keys"), ""
	for _, tenant := range []string{"acme", "beta", "default"} {
		sum := sha256.Sum256([]byte(tenant))
		text += hex.EncodeToString(sum[:]) + " " + tenant + "\n"
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	tm, err := telemetry.Setup(t.Context(), telemetry.Config{ServiceName: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tm.Close() })
	up := upstream.New(d.Conn(t), "switchyard", nil)
	if err := up.Open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(up.Close)
	door := gateway.NewDoor(gateway.DoorSettings{
		Config:   gateway.Config{Keys: file, MaxBody: 1 << 20, MaxStreams: 64, MaxConns: 64, Stall: testkit.Patience},
		Upstream: up, Telemetry: tm, Replica: "gateway-2", Logger: slog.New(slog.DiscardHandler),
	})
	if err := door.Open(); err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(door)
	t.Cleanup(s.Close)
	return s
}

func ask(t *testing.T, s *httptest.Server, tenant, method, path, body, key string) (status int, answer, request string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+tenant)
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	got, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = got.Body.Close() }()
	data, err := io.ReadAll(got.Body)
	if err != nil {
		t.Fatal(err)
	}
	return got.StatusCode, string(data), got.Header.Get("X-Request-Id")
}

// Whichever gateway they ask, tenants have their own requests, and no others: of a key of theirs all
// gateways find the same one, and what is deleted is gone.
func TestTenantsApart(t *testing.T) {
	t.Parallel()
	d := openOf(t, clustertest.Demo(t), clustertest.Context(context))
	one, other := sibling(t, d), sibling(t, d)
	const body = `{"model":"demo","input":"Hello","max_output_tokens":12,"background":true}`
	status, answer, first := ask(t, one, "acme", "POST", "/v1/responses", body, "order 1")
	var r struct{ ID, Status string }
	if err := json.Unmarshal([]byte(answer), &r); err != nil || status != 200 {
		t.Fatalf("%d %s", status, answer)
	}
	path := "/v1/responses/" + r.ID
	testkit.Eventually(t, "it ends", func() bool {
		_, answer, _ = ask(t, other, "acme", "GET", path, "", "")
		return json.Unmarshal([]byte(answer), &r) == nil && (r.Status == "completed" || r.Status == "incomplete")
	})
	if _, _, again := ask(t, other, "acme", "POST", "/v1/responses", body, "order 1"); again != first {
		t.Errorf("the key is request %s at one gateway and %s at another", first, again)
	}
	if _, _, theirs := ask(t, other, "default", "POST", "/v1/responses", body, "order 1"); theirs == first {
		t.Error("the key of another tenant is the same request")
	}
	for _, tenant := range []string{"beta", "default"} {
		for _, call := range [][2]string{{"GET", path}, {"GET", path + "?stream=true"}, {"POST", path + "/cancel"}, {"DELETE", path}} {
			testkit.Eventually(t, fmt.Sprint(tenant, " does not find it: ", call), func() bool { // until a tokenizer says so, it may count as queued
				status, answer, _ := ask(t, one, tenant, call[0], call[1], "", "")
				if strings.Contains(answer, "delta") || strings.Contains(answer, `"output":[{`) {
					t.Fatalf("%s by %v: %s", tenant, call, answer)
				}
				return status == http.StatusNotFound
			})
		}
	}
	if status, answer, _ := ask(t, other, "acme", "DELETE", path, "", ""); status != 200 || !strings.Contains(answer, `"deleted":true`) {
		t.Errorf("its own tenant deletes it: %d %s", status, answer)
	}
	for _, call := range [][2]string{{"GET", path}, {"GET", path + "?stream=true"}, {"DELETE", path}} {
		testkit.Eventually(t, fmt.Sprint("it is gone: ", call), func() bool {
			status, _, _ := ask(t, one, "acme", call[0], call[1], "", "")
			return status == http.StatusNotFound
		})
	}
	if status, answer, _ := ask(t, one, "acme", "POST", "/v1/responses", body, "order 1"); status != http.StatusBadRequest || !strings.Contains(answer, "deleted") {
		t.Errorf("asking again for what was deleted: %d %s", status, answer)
	}
}
