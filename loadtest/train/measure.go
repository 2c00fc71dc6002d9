package train

import (
	"fmt"
	"math/rand/v2"

	"github.com/switchyard/switchyard/loadtest/train/networks"
	"github.com/switchyard/switchyard/pkg/compute/predictors"
	"github.com/switchyard/switchyard/pkg/policy/predict"
)

// MethodCopies are fine-tuned copies of gates without adapters: the paper's
// predictors to the letter, for comparison.
const MethodCopies = "copies"

// methods are those of a report, in its order.
func (s *Settings) methods() []string {
	list := []string{predict.MethodReused, predict.MethodHistory}
	for _, width := range s.Networks {
		list = append(list, methodOf(width))
	}
	return append(list, MethodCopies, predict.MethodMoEless, predict.MethodOracle)
}

func methodOf(width int) string { return fmt.Sprintf("%s-%d", predict.MethodProMoE, width) }

// batchRows are the rows of a batch whose loads are compared: a microbatch of
// answers of different requests.
const batchRows = 32

// measure tells how right each method is on the test rows.
func (t *trainer) measure(u unit, learn *networks.Examples, p predictorsOf) (list []predictors.Accuracy, err error) {
	test := t.examples(u, t.parts.test)
	rankers, err := t.rankers(u, learn, p)
	if err != nil {
		return nil, err
	}
	for _, method := range t.methods() {
		scores := make([]float32, test.Rows()*test.Experts)
		if method == predict.MethodOracle {
			for i, e := range test.Chosen {
				scores[i/test.TopK*test.Experts+int(e)] = 1
			}
		} else {
			rankers[method].Scores(u.source, test.X, test.Rows(), scores)
		}
		a := predictors.Accuracy{Method: method, Distance: u.distance, Layer: u.target}
		a.Accuracy = float64(predict.Hits(scores, test.Chosen, test.Experts, test.TopK)) / float64(len(test.Chosen))
		a.Load, a.Pearson = t.loads(scores, test, method == predict.MethodHistory)
		list = append(list, a)
	}
	return list, nil
}

// rankers are the methods' predictors for the unit's distance; only those of its
// target are of use.
func (t *trainer) rankers(u unit, learn *networks.Examples, p predictorsOf) (map[string]predict.Ranker, error) {
	reused, err := predict.Reused(t.gates, u.distance)
	if err != nil {
		return nil, err
	}
	history, err := t.history(u, learn)
	if err != nil {
		return nil, err
	}
	rankers := map[string]predict.Ranker{predict.MethodReused: reused, predict.MethodHistory: history}
	for method, tuned := range map[string]*predict.Tuned{MethodCopies: p.alone, predict.MethodMoEless: p.best} {
		weights := map[int]predict.Tuned{}
		if tuned != nil {
			weights[u.target] = *tuned
		}
		if rankers[method], err = predict.LayerAware(t.gates, u.distance, weights); err != nil {
			return nil, err
		}
	}
	for i, width := range t.Networks {
		if rankers[methodOf(width)], err = learned(t.gates, u.distance, p.networks[i]); err != nil {
			return nil, err
		}
	}
	return rankers, nil
}

// learned predicts every layer with the same network.
func learned(g predict.Gates, distance int, network predict.Network) (*predict.Learned, error) {
	networks := map[int]predict.Network{}
	for _, l := range g.Sources(distance) {
		networks[l+distance] = network
	}
	return predict.NewLearned(g, distance, networks)
}

// history has seen the loads of the rows that others learn from.
func (t *trainer) history(u unit, learn *networks.Examples) (*predict.History, error) {
	h, err := predict.NewHistory(t.gates, u.distance, 0)
	if err != nil {
		return nil, err
	}
	load := make([]float64, learn.Experts)
	for _, e := range learn.Chosen {
		load[e]++
	}
	h.Observe(u.target, load)
	return h, nil
}

// loads compares batches of rows of different sequences: the load accuracy, and
// the correlation of all pairs of predicted and actual loads. In proportion,
// scores are shares of a row; else a row's k highest count.
func (t *trainer) loads(scores []float32, test *networks.Examples, inProportion bool) (accuracy, pearson float64) {
	order := rand.New(rand.NewPCG(t.Training.Seed, 4)).Perm(test.Rows())
	var predicted, actual []float64
	batches := 0
	for from := 0; from+batchRows <= len(order); from += batchRows {
		p, a := batchLoads(scores, test, order[from:from+batchRows], inProportion)
		accuracy += predict.LoadAccuracy(p, a)
		predicted, actual = append(predicted, p...), append(actual, a...)
		batches++
	}
	if batches == 0 {
		return 0, 0
	}
	return accuracy / float64(batches), predict.Pearson(predicted, actual)
}
