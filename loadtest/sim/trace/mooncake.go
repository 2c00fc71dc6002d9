package trace

import (
	"encoding/json"
	"fmt"
	"time"
)

// mooncake reads a line of Mooncake's traces (github.com/kvcache-ai/Mooncake, FAST25-release/traces):
// a JSON object with milliseconds from the trace's begin and the tokens of prompt and answer.
// Blocks that prompts share are passed over: nothing here has a prefix cache.
func mooncake(line string) (t time.Time, r Request, err error) {
	var in struct {
		Timestamp *float64 `json:"timestamp"`
		Input     *int     `json:"input_length"`
		Output    *int     `json:"output_length"`
	}
	if err := json.Unmarshal([]byte(line), &in); err != nil {
		return t, r, fmt.Errorf("it is no JSON object like the first line: %w", err)
	}
	if in.Timestamp == nil || in.Input == nil || in.Output == nil {
		return t, r, fmt.Errorf("timestamp, input_length or output_length is missing; a request has all three")
	}
	if !(*in.Timestamp >= 0 && *in.Timestamp <= float64(mostSpan/time.Millisecond)) {
		return t, r, fmt.Errorf("timestamp is %v; it must be milliseconds from 0 to %d", *in.Timestamp, mostSpan/time.Millisecond)
	}
	for _, of := range []struct {
		name string
		n    int
	}{{"input_length", *in.Input}, {"output_length", *in.Output}} {
		if of.n < 0 || of.n > mostTokens {
			return t, r, fmt.Errorf("%s is %d; it must be a whole number from 0 to %d", of.name, of.n, mostTokens)
		}
	}
	at := time.Duration(*in.Timestamp * float64(time.Millisecond))
	return time.Unix(0, 0).UTC().Add(at), Request{Context: *in.Input, Generated: *in.Output}, nil
}
