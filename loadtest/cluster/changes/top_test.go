package changes

import (
	"testing"
	"time"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/compute/goldens"
	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest/compared"
	"github.com/switchyard/switchyard/services/switchyard/top"
)

// computed are the rows that expert hosts say to have computed, and those of layers.
func computed(s *top.Snapshot) (hosts, layers uint64) {
	for _, m := range s.Members {
		if m.Service == "expert" {
			hosts += uint64(m.Stats[members.HostRows])
		}
	}
	for _, l := range s.Layers {
		for _, n := range l.Rows {
			layers += n
		}
	}
	return hosts, layers
}

// answerRows are the rows of experts that one answer takes: two in each of three layers.
const answerRows = (compared.PromptTokens + compared.AnswerTokens - 1) * 3 * 2

// One look at an idle pipeline shows what all its experts have computed.
func TestTopIdle(t *testing.T) {
	t.Parallel()
	y := clustertest.Start(t, clustertest.Open(t, goldens.Dir("mixtral")), clustertest.Hosts(2), clustertest.Context(compared.Positions))
	y.AwaitHosts(t, 2)
	conn, names := y.Conn(t), y.Settings.Node.Names()
	look := func(r *top.Reader) *top.Snapshot {
		now, err := r.Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return now
	}
	early := top.NewReader(conn.NATS(), conn.JetStream(), names)
	defer early.Close()
	look(early)
	if _, err := compared.Sampled(t.Context(), compared.Asker(y), 1); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "all samples are sent", func() bool {
		members, layers := computed(look(early))
		return members >= answerRows && layers == members
	})
	testkit.Eventually(t, "one look shows all", func() bool { // a host that renews late is not in it
		r := top.NewReader(conn.NATS(), conn.JetStream(), names)
		defer r.Close()
		look(r)
		r.Await(t.Context(), time.Minute)
		now := look(r)
		members, layers := computed(now)
		return len(now.Layers) == 3 && layers >= answerRows && layers == members
	})
}
