package check

import "testing"

// What another run of a request meters otherwise is no other content; tokens are.
func TestContent(t *testing.T) {
	usage := func(text string) string { return (&Chunk{Usage: []byte(text)}).Content() }
	plain := usage(`{"prompt_tokens":57,"completion_tokens":8}`)
	for text, same := range map[string]bool{
		`{"prompt_tokens":57,"completion_tokens":8,"expert_gb_s":0.2,"cold_starts":3}`: true,
		`{"completion_tokens":8,"prompt_tokens":57}`:                                   true,
		`{"prompt_tokens":57,"completion_tokens":9,"expert_gb_s":0.2}`:                 false,
		`{"prompt_tokens":57,"completion_tokens":8,"other":1}`:                         false,
		`null`: false,
		`[1]`:  false,
	} {
		if got := usage(text); (got == plain) != same {
			t.Errorf("%s is %s; the same: %t", text, got, !same)
		}
	}
}

// An earlier release does not tell the bytes of a candidate's token; whatever else differs is another content.
func TestCommon(t *testing.T) {
	common := func(text string) string { return (&Chunk{Logprobs: []byte(text)}).Common() }
	earlier := common(`[{"index":1,"chosen":{"id":8,"logprob":-0.42315102},"top":[{"id":8,"logprob":-0.42315102}]}]`)
	for text, same := range map[string]bool{
		`[{"index":1,"chosen":{"id":8,"logprob":-0.42315102,"token":"IGg="},"top":[{"id":8,"logprob":-0.42315102,"token":"IGg="}]}]`: true,
		`[{"index":1,"chosen":{"id":8,"logprob":-0.42315103,"token":"IGg="},"top":[{"id":8,"logprob":-0.42315102,"token":"IGg="}]}]`: false,
		`[{"index":1,"chosen":{"id":8,"logprob":-0.42315102,"token":"IGg="},"top":[{"id":9,"logprob":-0.42315102,"token":"IGg="}]}]`: false,
		`[]`: false,
		`1`:  false,
	} {
		if got := common(text); (got == earlier) != same {
			t.Errorf("%s is %s; the same: %t", text, got, !same)
		}
	}
}
