package expert

import (
	"fmt"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit/testdeployment"
)

func TestBudgetBelowOneExpert(t *testing.T) {
	d := testdeployment.Open(t)
	one := newHost(t, d).expertBytes
	for budget, says := range map[uint64]string{0: "", one: "", one - 1: fmt.Sprintf("is %d bytes; an expert of model tiny has %d", one-1, one)} {
		err := Config{MemoryBudget: budget}.Check(d.Model)
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%d bytes: %v, want %q", budget, err, says)
		}
	}
}
