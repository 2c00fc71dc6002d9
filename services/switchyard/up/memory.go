package up

import (
	"fmt"
	"math"

	"github.com/switchyard/switchyard/pkg/compute/kvcache"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/process/lifecycle"
	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
)

// Part is the services of one model in this process.
type Part struct {
	Services *cluster.Services
	Model    *model.Model
	Count    map[string]int
	// Alone says that no other process has experts of the model.
	Alone bool
}

// ShareMemory decides the budgets that no flag gives, so that all parts together stay below what this process may
// take, and refuses those that cannot hold what they are for.
func ShareMemory(e *cli.Env, parts ...Part) error {
	m := lifecycle.MemoryOf()
	if heap := lifecycle.BoundHeap(); heap > 0 {
		e.Log.Info("Go's heap is bounded by the container; GOMEMLIMIT says otherwise", "bytes", heap, "by", m.By)
	}
	needs := make([]need, len(parts))
	for i, p := range parts {
		var err error
		if needs[i], err = needOf(p); err != nil {
			return err
		}
	}
	share(m.Left, needs)
	for i, p := range parts {
		n := needs[i]
		if err := n.check(p, m); err != nil {
			return cli.Usage(err)
		}
		if n.autoKV {
			p.Services.Attention.KVBytes = n.kv
		}
		if n.autoExperts {
			p.Services.Expert.MemoryBudget = uint64(n.budget) //nolint:gosec // it is not negative
		}
	}
	warnSum(e, m, needs)
	return nil
}

// warnSum warns of flags that are fine one by one, and together allow more memory than there is.
func warnSum(e *cli.Env, m lifecycle.Memory, needs []need) {
	var sum int64
	for _, n := range needs {
		if max(n.kv, n.budget) > m.Limit && n.paced == 0 {
			return // tellMemory has named the flag
		}
		sum += n.backbone + n.kv + n.held()
	}
	if m.Limit > 0 && sum > m.Limit {
		e.Log.Warn("the flags together allow more memory than this process may have: it is taken as it is needed, and then the system may end this process; give less",
			"bytes", sum, "limit_bytes", m.Limit, "by", m.By)
	}
}

// need is what a part takes of this process's memory, in bytes.
type need struct {
	// backbone is attention's weights. kv is what its pages may take, and most what they could use.
	backbone, kv, most, page int64
	// experts is all of them, each once, and largest one of them. Each of the hosts has a budget; 0: no limit.
	experts, largest, hosts, budget int64
	// autoKV and autoExperts say that no flag has set kv and budget.
	autoKV, autoExperts bool
	// paced is what the experts of paced hosts take here, whatever they take of the device that they stand for.
	paced int64
}

// held returns what the expert hosts take at most.
func (n *need) held() int64 {
	switch {
	case n.paced > 0:
		return n.paced
	case n.autoExperts && n.budget == 0:
		return n.hosts * n.experts
	}
	return n.hosts * min(n.budget, n.experts)
}

// usualKV is the memory for keys and values where nobody knows how much there is.
const usualKV = 64 << 20

func needOf(p Part) (n need, err error) {
	s, m := p.Services, p.Model
	if p.Count["attention"] > 0 && s.Attention.GPU == nil {
		n.autoKV, n.kv, n.backbone = s.Attention.AutoMemory, s.Attention.KVBytes, backboneBytes(m)
		shape := kvcache.ShapeOf(&m.Spec)
		pool, err := kvcache.NewPool(shape, math.MaxInt64)
		if err != nil {
			return n, err
		}
		n.page = shape.PageBytes()
		n.most = int64(s.Attention.MaxSequences) * int64(pool.Need(m.Spec.LongestSequence(s.Attention.MaxModelLen))) * n.page
	}
	if p.Count["expert"] > 0 && s.Expert.GPU == nil && s.Expert.Rent == nil {
		n.hosts, n.budget = int64(p.Count["expert"]), int64(s.Expert.MemoryBudget) //nolint:gosec // below MostBytes
		n.experts, n.largest, err = s.Expert.Experts(m)
		n.autoExperts = s.Expert.AutoMemory && s.Expert.Profile == nil
	}
	if s.Expert.Profile != nil && n.hosts > 0 { // its budget is another device's memory, and here are the model's own weights
		n.paced = m.Bytes - backboneBytes(m)
		n.budget = s.Expert.Profile.Memory()
		if own := int64(s.Expert.MemoryBudget); own > 0 { //nolint:gosec // below MostBytes
			n.budget = own
		}
	}
	return n, err
}

// backboneBytes returns what all weights but the routed experts take in files, which is at least what they take in memory.
func backboneBytes(m *model.Model) int64 {
	bytes := m.Bytes
	for ref, t := range m.Stored() {
		if ref.Role.IsExpert() {
			bytes -= t.DType.Bytes(int64(t.Len()))
		}
	}
	return max(0, bytes)
}

// What is shared: the rest is for messages, rows under way and garbage. Experts get at most a share of it where
// they could all have copies, so that something is left for keys and values.
const (
	sharedOut     = 0.9
	expertsShared = 0.75
)

// share fills in what no flag has set, of memory that is left; 0: nobody knows.
func share(left int64, needs []need) {
	rest := int64(sharedOut * float64(left))
	var wanted, least, floor, autos int64
	for i := range needs {
		n := &needs[i]
		rest -= n.backbone
		switch {
		case n.autoExperts:
			wanted += n.hosts * n.experts
			least += n.least()
		default:
			rest -= n.held()
		}
		switch {
		case n.autoKV:
			autos++
			floor += min(n.most, usualKV)
		default:
			rest -= n.kv
		}
	}
	rest = max(rest, 0)
	room := int64(expertsShared * float64(rest))
	switch {
	case autos == 0:
		room = rest
	case least <= rest-floor:
		room = max(room, least)
	}
	for i := range needs {
		n := &needs[i]
		if n.autoExperts && left > 0 && wanted > room && least > 0 {
			n.budget = int64(float64(room) / float64(least) * float64(n.least()) / float64(n.hosts))
			n.budget = min(max(n.budget, 1), n.experts) // 0 would be no limit
			rest -= n.hosts * n.budget
		} else if n.autoExperts {
			rest -= n.hosts * n.experts
		}
	}
	shareKV(left, max(rest, 0), autos, needs)
}

// shareKV divides the rest among models' keys and values: what one has no use for others get.
func shareKV(left, rest, autos int64, needs []need) {
	for ; autos > 0; autos-- {
		at := -1
		for i := range needs { // the one that can use the least is next
			if n := &needs[i]; n.autoKV && n.kv == 0 && (at < 0 || n.most < needs[at].most) {
				at = i
			}
		}
		n := &needs[at]
		n.kv = min(max(rest/autos, 1), n.most)
		if left == 0 {
			n.kv = usualKV
		}
		rest -= n.kv
	}
}

// least returns the memory with which the hosts surely hold each expert once.
func (n *need) least() int64 { return n.experts + (n.hosts-1)*n.largest }

// check refuses what would start and never serve.
func (n *need) check(p Part, m lifecycle.Memory) error {
	has := fmt.Sprintf("this process may take %d bytes by %s, of which %d are left", m.Limit, m.By, m.Left)
	if n.autoKV && n.kv < n.page {
		return fmt.Errorf("there is no memory for keys and values: %s; model %s has %d beside them, and a page of them %d: give it more, or --kv-memory to take it all the same",
			has, p.Model.Name, n.backbone+n.held(), n.page)
	}
	if n.autoExperts && n.budget > 0 && n.budget < n.largest {
		return fmt.Errorf("there is no memory for experts: %s; an expert of model %s has %d: give it more, or --expert-memory 0 to take it all the same", has, p.Model.Name, n.largest)
	}
	offloads := p.Services.Expert.Offload != "" && p.Services.Expert.Offload != "none"
	if n.budget == 0 || offloads || !p.Alone || n.hosts*n.budget >= n.least() {
		return nil
	}
	if n.hosts*(n.budget/n.largest)*n.largest >= n.experts || n.budget < n.largest { // all are of one size; CheckServices refuses less than one
		return nil
	}
	if n.autoExperts {
		return fmt.Errorf("there is no memory for the experts of model %s, which have %d bytes: %s: give it more, --offload lru to hold a part of them, or --expert-memory 0 to take it all the same",
			p.Model.Name, n.experts, has)
	}
	return fmt.Errorf("--expert-memory is %d bytes on each of %d expert hosts; the experts of model %s have %d: give at least %d, more --hosts, or --offload lru to hold a part of them",
		n.budget, n.hosts, p.Model.Name, n.experts, (n.least()+n.hosts-1)/n.hosts)
}
