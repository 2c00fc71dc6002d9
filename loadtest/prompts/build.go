package prompts

import (
	"fmt"

	"github.com/switchyard/switchyard/pkg/policy/predict/sps"
	"github.com/switchyard/switchyard/pkg/serverless/rented"
)

// Build makes a store of prompts of the past, the oldest first, with the temperature fitted to the last
// tenth of them if fit says so.
func Build(set sps.Settings, past []Seen, fit bool) (*sps.Store, error) {
	if len(past) == 0 {
		return nil, fmt.Errorf("%w: there is none; name texts with some, or a longer recording", sps.ErrPrompt)
	}
	t := &rented.Texts{Width: set.Width}
	for _, p := range past {
		t.Past = append(t.Past, p.Prompt)
	}
	return rented.Shape{}.Store(t, set, fit)
}
