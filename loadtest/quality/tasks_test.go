package quality

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestReadTask(t *testing.T) {
	for name, tc := range map[string]struct {
		body string
		want []Question
		err  string
	}{
		"instructions": {
			body: `[{"instruction": "Please choose the correct solution to the question: To sweep:\nfast\n\nSolution1: a broom \n\nSolution2: an axe\n\nAnswer format: solution1/solution2", "answer": "solution1"},
				{"instruction": "Please choose the correct answer to the question: What is wet?\n\nAnswer1: fire Answer2: sand Answer3: rain\n\nAnswer format: answer1/answer2/answer3", "answer": "answer3"}]`,
			want: []Question{
				{Begin: "To sweep:\nfast", Options: []string{"a broom", "an axe"}, Right: 0},
				{Begin: "What is wet?", Options: []string{"fire", "sand", "rain"}, Right: 2},
			},
		},
		"causes": {
			body: `{"premise": "The man fell.", "choice1": "He slipped.", "choice2": "He slept.", "question": "cause", "label": 0}
				{"premise": "It rained.", "choice1": "It dried.", "choice2": "I got wet.", "question": "effect", "label": 1}`,
			want: []Question{
				{Begin: "The man fell because", Options: []string{"he slipped.", "he slept."}, Right: 0},
				{Begin: "It rained so", Options: []string{"it dried.", "i got wet."}, Right: 1},
			},
		},
		"a long line of other letters": {
			body: `{"premise": "` + strings.Repeat("x", 1<<17) + `", "choice1": "Élan.", "choice2": "Às.", "question": "cause", "label": 0}`,
			want: []Question{{Begin: strings.Repeat("x", 1<<17) + " because", Options: []string{"élan.", "às."}, Right: 0}},
		},
		"nothing":            {err: "this is no task: none has no question"},
		"an empty list":      {body: `[]`, err: "none has no question"},
		"no JSON":            {body: `[{]`, err: "this is no task: none: invalid character"},
		"no options":         {body: `[{"instruction": "What?", "answer": "answer1"}]`, err: "question 1: the instruction has no question with numbered options"},
		"an answer of words": {body: `[{"instruction": "x to the question: Q\n\nAnswer1: a Answer2: b\n\nAnswer format: ", "answer": "yes"}]`, err: "it must end in an option's number"},
		"an answer too high": {body: `[{"instruction": "x to the question: Q\n\nAnswer1: a Answer2: b\n\nAnswer format: ", "answer": "answer3"}]`, err: "one of them right"},
		"neither":            {body: `{"premise": "A.", "choice1": "b", "choice2": "c", "question": "why"}`, err: `the question is "why"; it must be cause or effect`},
		"an empty option":    {body: `{"premise": "A.", "choice1": "b", "choice2": "", "question": "cause"}`, err: "an option is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ReadTask("none", []byte(tc.body))
			if tc.err != "" {
				if !errors.Is(err, ErrTask) || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("%v, want %q", err, tc.err)
				}
				return
			}
			if err != nil || !reflect.DeepEqual(got.Questions, tc.want) {
				t.Errorf("%v, %v; want %v", got.Questions, err, tc.want)
			}
		})
	}
}

// What is read can be asked.
func FuzzTask(f *testing.F) {
	f.Add([]byte(`[{"instruction": "x to the question: Q\n\nAnswer1: a Answer2: b\n\nAnswer format: ", "answer": "answer1"}]`))
	f.Add([]byte(`{"premise": "A.", "choice1": "b", "choice2": "c", "question": "cause", "label": 1}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		task, err := ReadTask("fuzzed", body)
		if err != nil {
			return
		}
		for _, q := range task.Questions {
			if err := q.check(); err != nil {
				t.Error(err)
			}
		}
	})
}

// A task is at chance unless more are right than guessing explains.
func TestAtChance(t *testing.T) {
	for name, tc := range map[string]struct {
		right, of int
		want      bool
	}{
		"half of few": {5, 10, true}, "a little more of few": {6, 10, true}, "a little more of many": {600, 1000, false}, "fewer": {400, 1000, true},
	} {
		list, right := make([]choice, tc.of), make([]bool, tc.of)
		for i := range list {
			list[i].whole, right[i] = make([][]uint32, 2), i < tc.right
		}
		l := taskLine(list, right, right)
		if l.AtChance != tc.want || l.Chance < 0.499 || l.Chance > 0.501 || l.Points != 0 {
			t.Errorf("%s: %+v", name, l)
		}
	}
}
