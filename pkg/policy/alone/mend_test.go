package alone

import (
	"strings"
	"testing"

	"github.com/switchyard/switchyard/pkg/policy/plan"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

const (
	warm = pb.Want_WANT_WARM
	kept = pb.Want_WANT_KEPT
)

func on(want pb.Want, hosts ...string) (all []*pb.Placement) {
	for _, h := range hosts {
		all = append(all, &pb.Placement{Host: h, Want: want})
	}
	return all
}

// inForce is a scaler's plan: one expert on a and b, one on a and kept on b, one on c.
func inForce(t *testing.T) plan.Known {
	t.Helper()
	lp := &pb.LayerPlan{Policy: "moeless", Functions: plan.Group(0, plan.ByExpert, [][]*pb.Placement{
		on(warm, "a", "b"), append(on(warm, "a"), on(kept, "b")...), on(warm, "c"),
	})}
	l, err := plan.Rules{MoELayers: []int{0}, Experts: 3}.Check(lp)
	if err != nil {
		t.Fatal(err)
	}
	return plan.Known{Model: plan.Model{MoELayers: []int{0}, Experts: 3, ExpertBytes: 10}, InForce: map[int]*plan.Layer{0: l}}
}

func hosts(ids string, budget uint64) (all []plan.Host) {
	for _, id := range strings.Fields(ids) {
		all = append(all, plan.Host{ID: id, Budget: budget})
	}
	return all
}

func spell(lp *pb.LayerPlan) (text string) {
	for _, f := range lp.Functions {
		for _, p := range f.Placements {
			text += map[pb.Want]string{warm: "", kept: "k"}[p.Want] + p.Host
		}
		text += " "
	}
	return strings.TrimSpace(text)
}

func TestMend(t *testing.T) {
	for _, tc := range []struct{ name, hosts, want string }{
		{"all are here", "a b c", "ab akb c"}, {"a new one gets nothing", "a b c d", "ab akb c"},
		{"one is gone", "a b", "ab akb a"}, {"what was kept serves", "b c", "b b c"}, {"two are gone", "d c", "d c c"},
	} {
		k := inForce(t)
		k.Hosts = hosts(tc.hosts, 100)
		d, err := Mend(k)
		if err != nil || spell(d.Layers[0]) != tc.want {
			t.Errorf("%s: %v, %v, want %s", tc.name, d, err, tc.want)
			continue
		}
		if _, err := (plan.Rules{MoELayers: []int{0}, Experts: 3}).Check(d.Layers[0]); err != nil {
			t.Errorf("%s: %v", tc.name, err)
		}
		if same := d.Layers[0] == k.InForce[0].LayerPlan; same != strings.Contains(tc.hosts, "a b c") || d.Layers[0].Policy != "moeless" {
			t.Errorf("%s: the same plan: %v", tc.name, same)
		}
	}
}

func TestMendRefuses(t *testing.T) {
	k := inForce(t)
	k.Hosts = hosts("d", 10)
	if d, err := Mend(k); err == nil || !strings.Contains(err.Error(), "fits on none of 1 hosts") {
		t.Errorf("%v, %v", d, err)
	}
	k.InForce = nil
	if d, err := Mend(k); err == nil {
		t.Errorf("%v, %v", d, err)
	}
}

// A plan by loads stays if every layer of it is of these settings.
func TestStaysWhole(t *testing.T) {
	now := plan.DefaultSettings()
	other := now.With(plan.Settings{Replicas: 2})
	for _, tc := range []struct {
		name  string
		under []*plan.Settings // of each layer; nil: it does not say
		stays bool
	}{
		{"all of these", []*plan.Settings{&now, &now}, true},
		{"one of others, as after a change to them and back", []*plan.Settings{&now, &other}, false},
		{"all of others", []*plan.Settings{&other, &other}, false},
		{"one says nothing, and these were there before", []*plan.Settings{&now, nil}, true},
	} {
		k := plan.Known{Settings: now, InForce: map[int]*plan.Layer{}}
		for l, under := range tc.under {
			lp := &pb.LayerPlan{Layer: uint32(l), Policy: "moeless"}
			if under != nil {
				lp = plan.Under([]*pb.LayerPlan{lp}, *under)[0]
			}
			k.InForce[l] = &plan.Layer{LayerPlan: lp}
		}
		if got := Stays(k, now); got != tc.stays {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
}

// A plan by loads stays while the settings are those that it was written under; where it does not say them, those that
// were there before count.
func TestStays(t *testing.T) {
	now := plan.DefaultSettings()
	other := now.With(plan.Settings{Replicas: 2})
	for _, tc := range []struct {
		name           string
		policy         string
		under          *plan.Settings
		before, wanted plan.Settings
		stays          bool
	}{
		{"the same", "moeless", &now, now, now, true},
		{"others, from before this tenure", "moeless", &now, other, other, false},
		{"others in this tenure", "moeless", &now, now, other, false},
		{"written after they had changed in this tenure", "moeless", &other, now, other, true},
		{"it does not say them", "moeless", nil, now, now, true},
		{"it does not say them, and they have changed", "moeless", nil, now, other, false},
		{"no plan by loads", "", &now, now, now, false},
	} {
		k := inForce(t)
		k.Settings, k.InForce[0].Policy = tc.wanted, tc.policy
		if tc.under != nil {
			k.InForce[0].LayerPlan = plan.Under([]*pb.LayerPlan{k.InForce[0].LayerPlan}, *tc.under)[0]
		}
		if got := Stays(k, tc.before); got != tc.stays {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
}
