package elastic

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/switchyard/switchyard/internal/transcript"
	"github.com/switchyard/switchyard/pkg/control/loads"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// TestTranscripts plays what happens to a scaler; plans are carried out at once.
func TestTranscripts(t *testing.T) {
	transcript.Run(t, "testdata/*.txt", func(t testing.TB) transcript.Machine {
		y := &yard{numbers: map[string]uint64{}, inForce: map[int]*plan.Layer{}}
		return func(t testing.TB, e *transcript.Event) []string {
			y.said = nil
			y.do(t, e)
			return y.said
		}
	})
}

const testHash = 7

// yard is a scaler with the hosts and the plan that it decides on.
type yard struct {
	core     *Core
	now      float64
	hosts    []plan.Host
	settings plan.Settings
	inForce  map[int]*plan.Layer
	numbers  map[string]uint64
	last     *pb.LoadSample
	said     []string

	computedRows float64
	turn         int
}

func (y *yard) say(format string, args ...any) { y.said = append(y.said, fmt.Sprintf(format, args...)) }

func (y *yard) do(t testing.TB, e *transcript.Event) {
	t.Helper()
	switch e.Name {
	case "scaler":
		y.start(t, e)
	case "host":
		y.host(e.Arg(t, 0), uint64(e.Int(t, "budget", 0)), slices.Contains(e.Args, "throttles"))
	case "gone":
		y.hosts = slices.DeleteFunc(y.hosts, func(h plan.Host) bool { return h.ID == e.Arg(t, 0) })
	case "rows", "predict", "computed":
		y.send(t, e)
	case "again":
		y.observe(y.last)
	case "wait":
		y.now += e.Duration(t, "for", time.Second).Seconds()
	case "flow":
		y.flow(t, e)
	case "busy":
		y.busy(e.Duration(t, "for", time.Second).Seconds())
	case "refuse":
		y.refuse(e.Arg(t, 0), e.Int(t, "expert", 0))
	case "decide":
		y.decide()
	case "counts":
		y.say("%+v", y.core.Counts())
	default:
		e.Fatalf(t, "there is no such event")
	}
}

// start begins with what another scaler may have left.
func (y *yard) start(t testing.TB, e *transcript.Event) {
	s := printed()
	s.Scaling = e.Text("scaling", s.Scaling)
	s.CV = e.Float(t, "cv", s.CV)
	s.KeepAlive = e.Duration(t, "keep-alive", 60*time.Second).Seconds()
	s.ZeroAfter = e.Duration(t, "zero-after", 0).Seconds()
	s.Horizon = e.Duration(t, "horizon", 10*time.Second).Seconds()
	s.MessageSeconds = e.Duration(t, "message", 25*time.Microsecond).Seconds()
	s.Worth = e.Float(t, "worth", 0)
	s.MessageFixed = e.Text("message", "") != ""
	s.MemoryCap = uint64(e.Int(t, "cap", 1000))
	y.settings = plan.Settings{Policy: plan.Static, Grouping: plan.Grouping(e.Text("grouping", "expert")), Replicas: 1}
	core, err := New(s, testModel(e.Int(t, "layers", 1), e.Int(t, "experts", 4)))
	if err != nil {
		y.say("%v", err)
		return
	}
	y.core = core
}

func testModel(layers, experts int) Model {
	m := Model{Model: plan.Model{Experts: experts, ExpertBytes: 10}, Hash: testHash, TopK: 1}
	for l := range layers {
		m.MoELayers = append(m.MoELayers, l)
	}
	return m
}

// host lets a host come, or say something else of its memory and its device.
func (y *yard) host(id string, budget uint64, throttles bool) {
	y.hosts = slices.DeleteFunc(y.hosts, func(h plan.Host) bool { return h.ID == id })
	y.hosts = append(y.hosts, plan.Host{ID: id, Budget: budget, Throttles: throttles})
}

// send makes a sample of words like 3:100, an expert and its rows.
func (y *yard) send(t testing.TB, e *transcript.Event) {
	y.observe(y.sample(t, e))
}

func (y *yard) sample(t testing.TB, e *transcript.Event) *pb.LoadSample {
	from := e.Text("from", map[string]string{"rows": "gate-a", "predict": "predictor-a", "computed": "host-a"}[e.Name])
	layer := e.Int(t, "layer", 0)
	y.numbers[fmt.Sprint(from, layer)]++
	s := &pb.LoadSample{
		Version: schemas.Version, Model: uint64(e.Int(t, "model", testHash)), Host: from, Layer: uint32(layer), SpanMs: 10,
		Number: uint64(e.Int(t, "number", int(y.numbers[fmt.Sprint(from, layer)]))),
	}
	step := &pb.StepLoad{Owner: "attention-a"}
	for _, word := range e.Args {
		var expert, rows uint32
		if _, err := fmt.Sscanf(word, "%d:%d", &expert, &rows); err == nil {
			step.Expert, step.Count, step.Rows = append(step.Expert, expert), append(step.Count, rows), step.Rows+rows
			s.Expert, s.Rows, s.Total = append(s.Expert, expert), append(s.Rows, uint64(rows)), append(s.Total, uint64(rows))
		}
	}
	step.Rows = uint32(e.Int(t, "tokens", int(step.Rows)))
	step.Probe = slices.Contains(e.Args, "probe")
	switch e.Name {
	case "predict":
		s.Source, step.Distance = pb.LoadSource_LOAD_SOURCE_PREDICTOR, uint32(e.Int(t, "distance", 1))
		s.Steps, s.Expert, s.Rows, s.Total = []*pb.StepLoad{step}, nil, nil, nil
	case "computed":
		y.computed(t, e, s)
	default:
		s.Source, step.Distance = pb.LoadSource_LOAD_SOURCE_GATE, uint32(e.Int(t, "distance", 0))
		s.Steps, s.Expert, s.Rows, s.Total = []*pb.StepLoad{step}, nil, nil, nil
	}
	return s
}

// computed adds what hosts tell of their times and memory.
func (y *yard) computed(t testing.TB, e *transcript.Event, s *pb.LoadSample) {
	s.Memory = &pb.HostLoad{
		BudgetBytes: uint64(e.Int(t, "budget", 0)), UsedBytes: uint64(e.Int(t, "used", 0)),
		ColdStarts: uint64(e.Int(t, "starts", 0)), ColdStartNs: uint64(e.Duration(t, "waited", 0).Nanoseconds()),
	}
	if took := e.Duration(t, "row", 0); took > 0 {
		s.Functions = []*pb.FunctionLoad{{Id: plan.FunctionID(0, []uint32{0}, plan.Routed), Expert: []uint32{0}, Rows: 1, ComputeNs: uint64(took.Nanoseconds())}}
	}
}

func (y *yard) observe(s *pb.LoadSample) {
	y.last = s
	if err := y.core.Observe(y.now, s); err != nil {
		y.say("%v", err)
	}
}

// flow sends a sample every tenth of a second, and decides every half.
func (y *yard) flow(t testing.TB, e *transcript.Event) {
	began := y.now
	length := e.Duration(t, "for", time.Second).Seconds()
	for i := 1; float64(i)/10 <= length+1e-9; i++ {
		y.now = began + float64(i)/10
		sent := *e
		sent.Name = e.Text("kind", "rows")
		sample := y.sample(t, &sent)
		y.observe(sample)
		y.took(t, e)
		if y.computedRows > 0 { // once hosts have said so
			y.computedRows += routedRows(sample) * float64(len(y.core.layers))
			y.core.Computed(y.now, y.computedRows)
		}
		if i%5 == 0 {
			y.decide()
		}
	}
}

// took tells what the layers named by word took, such as took=0:1ms,1:2ms, with a scatter.
func (y *yard) took(t testing.TB, e *transcript.Event) {
	if e.Text("took", "") == "" {
		return
	}
	for layer, word := range strings.Split(e.Text("took", ""), ",") {
		d, err := time.ParseDuration(word)
		if err != nil {
			e.Fatalf(t, "%v", err)
		}
		times := loads.NewTimes(testHash, "attention-a")
		for range 3 {
			y.turn++
			times.Add(layer, loads.Took{Rows: e.Int(t, "tokens", 10), Dispatches: 4, Total: d + d*time.Duration(y.turn%7-3)/50, Messages: d / 2})
		}
		s := times.Take(loads.TimesEvery)[0]
		y.numbers[fmt.Sprint("attention-a", layer)]++
		s.Number = y.numbers[fmt.Sprint("attention-a", layer)]
		y.observe(s)
	}
}

// busy lets hosts compute rows of which no samples come, and decides every second.
func (y *yard) busy(length float64) {
	for end := y.now + length; y.now < end; {
		y.now++
		y.computedRows += 100
		y.core.Computed(y.now, y.computedRows)
		y.decide()
	}
}

func (y *yard) refuse(host string, expert int) {
	y.core.Refused(y.now, host, plan.FunctionID(0, []uint32{uint32(expert)}, plan.Routed))
}

// decide carries a plan out, and tells of what has changed.
func (y *yard) decide() {
	k := plan.Known{Model: y.core.model.Model, Settings: y.settings, Hosts: y.hosts, InForce: y.inForce}
	d, verdicts, err := y.core.Decide(y.now, k)
	for _, o := range y.core.Ended() {
		y.say("%.1f: the change of layer %d %v: expected %.0f %%, came %.0f ± %.0f %%", y.now, o.Layer, o.Verdict, 100*o.Expected, 100*o.Came, 100*o.Error)
	}
	if err != nil {
		y.say("%.1f: %v", y.now, err)
		return
	}
	for i, lp := range d.Layers {
		checked, err := plan.Rules{MoELayers: y.core.model.MoELayers, Experts: y.core.model.Experts}.Check(lp)
		if err != nil {
			y.say("illegal: %v", err)
			continue
		}
		in := y.inForce[int(lp.Layer)]
		if in != nil && plan.Same(in.LayerPlan, lp) {
			continue
		}
		y.inForce[int(lp.Layer)] = checked
		y.say("%.1f: layer %d:%s", y.now, lp.Layer, spell(lp))
		y.say("  %s %v", lp.Reason, verdicts[i].Causes)
	}
}

// spell writes a plan in a line: experts, and the hosts of each; (h) is kept there,
// ~h cold.
func spell(lp *pb.LayerPlan) (text string) {
	for _, f := range lp.Functions {
		var on []string
		for _, p := range f.Placements {
			h := strings.TrimPrefix(p.Host, "host-")
			on = append(on, map[pb.Want]string{warm: h, kept: "(" + h + ")", cold: "~" + h}[p.Want])
		}
		text += fmt.Sprintf(" %v %s", strings.Trim(fmt.Sprint(f.Experts), "[]"), strings.Join(on, "+")) + ","
	}
	return strings.TrimSuffix(text, ",")
}

// printed are the default settings with MoEless as printed, whose decisions the tests follow.
func printed() Settings {
	s := DefaultSettings()
	s.Scaling = "moeless"
	return s
}
