package intake_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/tokenizer"
	"github.com/switchyard/switchyard/services/tokenizer/internal/rig"
)

// What a tokenizer works on counts against its tenant's quota though it makes no request of it: prompts that are
// refused, whatever for, and prompts of which only the tokens are wanted.
func TestRefusedWorkIsCharged(t *testing.T) {
	t.Parallel()
	refused := map[string]*pb.Prompt{
		"a schema":      {Text: "a", Grammar: &pb.Grammar{JsonSchema: `{"type":"nothing"}`}},
		"a long text":   {Text: strings.Repeat("a ", 2000)},
		"an id":         {InputIds: []uint32{1 << 30}},
		"two inputs":    {Text: "a", InputIds: []uint32{1}},
		"a stop token":  {Text: "a", StopTokenIds: []uint32{1 << 30}},
		"a temperature": {Text: "a", Temperature: proto.Float64(1e9)},
		"a broken chat": {Messages: []*pb.ChatMessage{{Role: "user"}}, Tools: "{"},
	}
	for name, p := range refused {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t, 0)
			s := r.Replica(func(c *tokenizer.Config) { c.Tenants = map[string]tokenizer.Quota{"acme": {RequestsPerMinute: 3}} })
			r.Eventually("it serves all shards", func() bool { return s.Delivery.Shards.Count() == schemas.LogShards })
			body, err := proto.Marshal(p)
			if err != nil {
				t.Fatal(err)
			}
			code := func(tenant string) string {
				m, err := r.NC.RequestMsg(&nats.Msg{
					Subject: r.D.Subjects.AskOf(schemas.Flow{Tenant: tenant, Class: schemas.ClassNormal}), Data: body,
					Header: nats.Header{schemas.HeaderContentType: {schemas.ContentProtobuf}},
				}, testkit.Patience)
				if err != nil {
					t.Fatal(err)
				}
				c := &pb.Chunk{}
				if err := proto.Unmarshal(m.Data, c); err != nil {
					t.Fatal(err)
				}
				return c.GetError().GetCode()
			}
			for i := range 3 {
				if got := code("acme"); !strings.HasPrefix(got, "bad_") {
					t.Fatalf("%d: %s", i, got)
				}
			}
			if left := s.Admission.Limits("acme").Requests.Left; left != 0 {
				t.Errorf("%d requests are left", left)
			}
			if got := code("other"); !strings.HasPrefix(got, "bad_") {
				t.Errorf("another tenant: %s", got)
			}
		})
	}
}

// Who has had all its tokens has nothing tokenized any more, as far as a gateway says whose it is; the word of others
// counts for nothing.
func TestTokenizingIsCharged(t *testing.T) {
	t.Parallel()
	r := rig.New(t, 0)
	s := r.Replica(func(c *tokenizer.Config) { c.Tenants = map[string]tokenizer.Quota{"acme": {TokensPerMinute: 20}} })
	r.Eventually("it serves all shards", func() bool { return s.Delivery.Shards.Count() == schemas.LogShards })
	code := func(tenant, secret string, text int) string {
		body, _ := proto.Marshal(&pb.Prompt{Text: strings.Repeat("a ", text)})
		m, err := r.NC.RequestMsg(&nats.Msg{Subject: r.D.Subjects.Tokenize(), Data: body, Header: nats.Header{
			schemas.HeaderContentType: {schemas.ContentProtobuf}, schemas.HeaderTenant: {tenant}, schemas.HeaderSeal: {schemas.Seal(secret, schemas.HeaderTenant, tenant)}, schemas.HeaderCount: {"1"},
		}}, testkit.Patience)
		if err != nil {
			t.Fatal(err)
		}
		got := &pb.Tokens{}
		if err := proto.Unmarshal(m.Data, got); err != nil {
			t.Fatal(err)
		}
		return got.GetError().GetCode()
	}
	secret := s.Intake.Secret()
	r.Eventually("it has had its tokens", func() bool { return code("acme", secret, 20_000) == "overloaded" })
	for of, want := range map[[2]string]string{{"acme", secret}: "overloaded", {"acme", "forged"}: "", {"other", secret}: "", {"", ""}: ""} {
		if got := code(of[0], of[1], 1); got != want {
			t.Errorf("%s: %q, want %q", fmt.Sprint(of), got, want)
		}
	}
}
