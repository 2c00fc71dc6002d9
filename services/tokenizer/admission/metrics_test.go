package admission

import (
	"fmt"
	"testing"
	"time"
)

// However many tenants have quotas, metrics name a bounded number of them.
func TestTenantLabels(t *testing.T) {
	config := map[string]Quota{EveryoneElse: {}}
	for i := range 3 * maxTenantLabels {
		config[fmt.Sprintf("t%03d", i)] = Quota{Waiting: 1}
	}
	q := newQuotas(config, time.Hour)
	seen := map[string]bool{}
	for tenant := range config {
		seen[q.label(tenant)] = true
	}
	if len(seen) != maxTenantLabels+1 || q.label("t000") != "t000" || q.label("t299") != EveryoneElse || q.label("stranger") != EveryoneElse {
		t.Errorf("%d labels", len(seen))
	}
}
