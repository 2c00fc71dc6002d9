package intake_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/tokenizer/internal/rig"
)

// A tokenizer tells ids of texts and texts of ids, refuses what is neither, and says what its
// model is.
func TestTokenize(t *testing.T) {
	t.Parallel()
	r := rig.New(t, 1)
	tokens := func(body string) *pb.Tokens {
		t.Helper()
		m, err := r.NC.Request(r.D.Subjects.Tokenize(), []byte(body), testkit.Patience)
		if err != nil {
			t.Fatal(err)
		}
		out := &pb.Tokens{}
		if err := protojson.Unmarshal(m.Data, out); err != nil {
			t.Fatalf("%s: %v", m.Data, err)
		}
		return out
	}
	got := tokens(`{"text":"Once upon"}`)
	if len(got.Ids) == 0 || len(got.Pieces) != len(got.Ids) || !strings.HasSuffix(got.Text, "Once upon") {
		t.Errorf("%v", got)
	}
	ids, _ := json.Marshal(got.Ids)
	if back := tokens(`{"input_ids":` + string(ids) + `}`); back.Text != got.Text {
		t.Errorf("%v, want %q", back, got.Text)
	}
	long := strings.Repeat("Once upon a time. ", 5000)
	for _, body := range []string{`{"text":"` + long + `"}`, `{"messages":[{"role":"user","content":"` + long + `"}]}`, `{"messages":[` + strings.Repeat(`{"role":"user","content":"a"},`, 600) + `{"role":"user","content":"a"}]}`} {
		whole := tokens(body)
		if len(whole.Ids) <= 512 || whole.Count != int32(len(whole.Ids)) {
			t.Errorf("%d ids, counted %d, %v: a text longer than the context", len(whole.Ids), whole.Count, whole.Error)
		}
		m, err := r.NC.RequestMsg(&nats.Msg{Subject: r.D.Subjects.Tokenize(), Data: []byte(body), Header: nats.Header{schemas.HeaderCount: {"1"}}}, testkit.Patience)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(m.Data); n > 200 || !strings.Contains(string(m.Data), fmt.Sprintf(`"count":%d`, whole.Count)) {
			t.Errorf("%d bytes: %.200s, want a count of %d alone", n, m.Data, whole.Count)
		}
	}
	for body, want := range map[string]string{`{}`: "bad_prompt", `{"text":`: "bad_request", `{"input_ids":[4294967295]}`: "bad_request", strings.Repeat("x", 1<<20): "payload_too_large"} {
		if got := tokens(body); got.GetError().GetCode() != want {
			t.Errorf("%.20s: %v, want %s", body, got.Error, want)
		}
	}
	m, err := r.NC.Request("$SRV.INFO.switchyard-tokenize", nil, testkit.Patience)
	if err != nil {
		t.Fatal(err)
	}
	var info micro.Info
	if err := json.Unmarshal(m.Data, &info); err != nil || info.Metadata["model"] != "demo" || info.Metadata["context"] != "512" || info.Metadata["text"] != "true" || info.Metadata["model_hash"] == "" {
		t.Errorf("%v %s", err, m.Data)
	}
}
