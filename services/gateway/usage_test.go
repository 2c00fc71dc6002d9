package gateway

import (
	"strings"
	"testing"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/gateway/internal/fake"
)

// Each API's usage counts the prompt's tokens that were not computed, as that API has it. Choices of one
// prompt have computed it, or not, each by itself: the first one counts.
func TestUsageCached(t *testing.T) {
	d := newDoor(t, &fake.Upstream{Answer: func(p *pb.Prompt) []*pb.Chunk {
		all := fake.Words(p, "stop", "Hello")
		all[0].Usage.CachedTokens = new(int32(2)) // of 3
		return all
	}})
	for path, tc := range map[string][2]string{
		"/v1/chat/completions": {hi + `,"n":2}`, `"prompt_tokens_details":{"cached_tokens":2}`},
		"/v1/completions":      {`{"model":"demo","prompt":"hi"}`, `"prompt_tokens_details":{"cached_tokens":2}`},
		"/v1/responses":        {`{"model":"demo","input":"hi"}`, `"input_tokens":3,"input_tokens_details":{"cached_tokens":2}`},
		"/v1/messages":         {`{"model":"demo","max_tokens":9,"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"hi"},{"role":"user","content":"hi"}]}`, `"input_tokens":1,"cache_creation_input_tokens":0,"cache_read_input_tokens":2`},
	} {
		if got := ask(d, "POST", path, tc[0]).Body.String(); !strings.Contains(got, tc[1]) {
			t.Errorf("%s: %s, want %s", path, got, tc[1])
		}
	}
}

// Each API's usage has what answers took of experts' memory and what a brownout changed, added up
// over choices, and nothing of it where there was nothing.
func TestUsage(t *testing.T) {
	const chat, response, message = "/v1/chat/completions", "/v1/responses", "/v1/messages"
	bodies := map[string]string{
		chat: hi + `,"n":2}`, response: `{"model":"demo","input":"hi"}`, message: `{"model":"demo","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`,
	}
	none := &fake.Upstream{}
	plain := newDoor(t, none)
	lowest := 0.6
	browned := newDoor(t, &fake.Upstream{Answer: func(p *pb.Prompt) []*pb.Chunk {
		all := fake.Words(p, "stop", "Hello")
		u := all[0].Usage
		u.ExpertGbS, u.ColdStarts = new(0.25), new(uint32(1))
		u.DegradedRows, u.DegradedTokens, u.LowestThreshold, u.UnitedWay = new(uint32(40)), new(uint32(3)), &lowest, new(uint32(8))
		return all
	}})
	for path, want := range map[string]string{
		chat:     `"expert_gb_s":0.5,"cold_starts":2,"degraded_rows":80,"degraded_tokens":6,"lowest_threshold":0.6,"united_way":8}`,
		response: `"expert_gb_s":0.25,"cold_starts":1,"degraded_rows":40,"degraded_tokens":3,"lowest_threshold":0.6,"united_way":8}`,
		message:  `"expert_gb_s":0.25,"cold_starts":1,"degraded_rows":40,"degraded_tokens":3,"lowest_threshold":0.6,"united_way":8}`,
	} {
		if got := ask(browned, "POST", path, bodies[path]).Body.String(); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
		if got := ask(plain, "POST", path, strings.TrimSuffix(bodies[path], "}")+`,"brownout":"never"}`).Body.String(); strings.Contains(got, "degraded") || strings.Contains(got, "expert_gb_s") {
			t.Errorf("%s, without a brownout: %s", path, got)
		}
	}
	prompts, _ := none.Asked()
	for _, p := range prompts {
		if p.Brownout != "never" {
			t.Errorf("asked %v, which does not say that it is not to be degraded", p)
		}
	}
}
