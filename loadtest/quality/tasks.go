package quality

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/switchyard/switchyard/pkg/request/tokenizer"
)

// Task is questions with options, one of which is right.
type Task struct {
	Name      string
	Questions []Question
}

// Question is a beginning, and how it may go on.
type Question struct {
	Begin   string
	Options []string
	Right   int
}

// mostOptions is how many options a question may have.
const mostOptions = 8

// MostShots is how many answered questions may stand before each.
const MostShots = 5

// ErrTask says that a file has no questions that can be read.
var ErrTask = errors.New("this is no task")

// ReadTask reads a list of instructions with numbered options (JSON), or XCOPA's lines (JSON).
func ReadTask(name string, body []byte) (Task, error) {
	t := Task{Name: name}
	add := func(q Question, err error) error {
		if err != nil {
			return fmt.Errorf("%w: %s, question %d: %w", ErrTask, name, len(t.Questions)+1, err)
		}
		t.Questions = append(t.Questions, q)
		return nil
	}
	if trimmed := bytes.TrimSpace(body); len(trimmed) > 0 && trimmed[0] == '[' {
		var list []instruction
		if err := json.Unmarshal(trimmed, &list); err != nil {
			return t, fmt.Errorf("%w: %s: %w", ErrTask, name, err)
		}
		for _, i := range list {
			if err := add(i.question()); err != nil {
				return t, err
			}
		}
	} else {
		for line := range bytes.Lines(trimmed) {
			if err := add(readCause(line)); err != nil {
				return t, err
			}
		}
	}
	if len(t.Questions) == 0 {
		return t, fmt.Errorf("%w: %s has no question", ErrTask, name)
	}
	return t, nil
}

// instruction is a question in the form of LLM-Adapters.
type instruction struct{ Instruction, Answer string }

var (
	asked    = regexp.MustCompile(`(?s)^[^:]*to the question: (.*?)\n\n((?:Solution|Answer)1: .*?)\n\nAnswer format: `)
	numbered = regexp.MustCompile(`(?:^|\s)(?:Solution|Answer)\d: `)
)

func (i instruction) question() (q Question, err error) {
	parts := asked.FindStringSubmatch(i.Instruction)
	if parts == nil {
		return q, errors.New("the instruction has no question with numbered options")
	}
	q.Begin = strings.TrimSpace(parts[1])
	for _, option := range numbered.Split(parts[2], -1)[1:] {
		q.Options = append(q.Options, strings.TrimSpace(option))
	}
	n, err := strconv.Atoi(strings.TrimLeft(i.Answer, "abcdefghijklmnopqrstuvwxyz"))
	q.Right = n - 1
	if err != nil {
		return q, fmt.Errorf("the answer is %q; it must end in an option's number", i.Answer)
	}
	return q, q.check()
}

// readCause reads a line of XCOPA.
func readCause(line []byte) (q Question, err error) {
	var c struct {
		Premise, Choice1, Choice2, Question string
		Label                               int
	}
	if err := json.Unmarshal(line, &c); err != nil {
		return q, err
	}
	word, ok := map[string]string{"cause": "because", "effect": "so"}[c.Question]
	if !ok {
		return q, fmt.Errorf("the question is %q; it must be cause or effect", c.Question)
	}
	q = Question{Begin: strings.TrimRight(c.Premise, " .") + " " + word, Options: []string{lowered(c.Choice1), lowered(c.Choice2)}, Right: c.Label}
	return q, q.check()
}

// lowered begins with a small letter, as it does in the middle of a sentence.
func lowered(s string) string {
	first, size := utf8.DecodeRuneInString(s)
	if size == 0 || first == utf8.RuneError {
		return s
	}
	return string(unicode.ToLower(first)) + s[size:]
}

func (q Question) check() error {
	if q.Begin == "" || len(q.Options) < 2 || len(q.Options) > mostOptions || q.Right < 0 || q.Right >= len(q.Options) {
		return fmt.Errorf("it has %d options, the right one being %d; there must be 2 to %d, and one of them right", len(q.Options), q.Right+1, mostOptions)
	}
	for _, o := range q.Options {
		if o == "" {
			return errors.New("an option is empty")
		}
	}
	return nil
}

// longest is the most tokens of a question with what stands before it.
const longest = 256

// ask makes choices of a task's questions, as many as are wanted, with some that are answered before each.
// Questions that are too long are left out.
func (s *Settings) ask(t Task) (list []choice, err error) {
	words, err := tokenizer.Open(s.Model.File)
	if err != nil {
		return nil, err
	}
	before := ""
	for _, q := range t.Questions[:min(s.Shots, len(t.Questions))] {
		before += q.Begin + " " + q.Options[q.Right] + "\n"
	}
	for _, q := range t.Questions[min(s.Shots, len(t.Questions)):] {
		c, err := q.choice(words, before)
		if err != nil {
			return nil, fmt.Errorf("encoding a question of %s: %w", t.Name, err)
		}
		if c.rows() <= min(longest, s.Model.Spec.MaxPositions) {
			list = append(list, c)
		}
		if len(list) == s.Questions {
			break
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%w: no question of %s has at most %d tokens; have fewer shots", ErrTask, t.Name, longest)
	}
	return list, nil
}

// choice is the question in tokens. What an option takes is judged by its bytes, so that short ones have no
// advantage.
func (q Question) choice(words *tokenizer.Tokenizer, before string) (c choice, err error) {
	begin, err := words.EncodePrompt(before+q.Begin, true)
	if err != nil {
		return c, err
	}
	c.right = q.Right
	for _, o := range q.Options {
		ids, err := words.EncodePrompt(before+q.Begin+" "+o, true)
		if err != nil {
			return c, err
		}
		from := 0
		for from < len(begin) && from < len(ids)-1 && begin[from] == ids[from] {
			from++
		}
		c.whole, c.from, c.weight = append(c.whole, ids), append(c.from, max(1, from)), append(c.weight, float64(len(o)))
	}
	return c, nil
}

// TaskLine is what became of a task in one setting.
type TaskLine struct {
	Questions int     `json:"questions"`
	Right     float64 `json:"right"` // share of questions
	Chance    float64 `json:"chance"`
	// AtChance says that threshold 1 is no better than chance, by a 95 % interval: then nothing can be lost,
	// and other settings are not measured.
	AtChance bool    `json:"at_chance,omitempty"`
	Points   float64 `json:"points"` // lost
	Interval float64 `json:"points_interval"`
	Loss     float64 `json:"loss"` // as a share of what threshold 1 has right
}

// String is a line of a table.
func (t TaskLine) String() string {
	if t.AtChance {
		return fmt.Sprintf("%.3f of %d right, chance being %.3f: it proves nothing", t.Right, t.Questions, t.Chance)
	}
	return fmt.Sprintf("%.3f of %d right, chance being %.3f; lost points %+.2f ± %.2f, loss %+.2f %%", t.Right, t.Questions, t.Chance, 100*t.Points, 100*t.Interval, 100*t.Loss)
}

// lost compares with threshold 1.
func lost(base, right []bool) (share, points, half, loss float64) {
	differences, was := make([]float64, len(right)), 0.0
	for i, r := range right {
		differences[i] = number(base[i]) - number(r)
		share += number(r) / float64(len(right))
		was += number(base[i]) / float64(len(right))
	}
	points, half = interval(differences)
	return share, points, half, ratio(points, was)
}

// taskLine compares a task's questions with threshold 1.
func taskLine(list []choice, base, right []bool) (t TaskLine) {
	t.Questions = len(list)
	for _, c := range list {
		t.Chance += 1 / float64(len(c.whole)) / float64(len(list))
	}
	t.Right, t.Points, t.Interval, t.Loss = lost(base, right)
	t.AtChance = atChance(list, base)
	return t
}

// atChance reports whether no more are right than by chance, within a 95 % interval.
func atChance(list []choice, right []bool) bool {
	n, chance, share := float64(len(list)), 0.0, 0.0
	for i, c := range list {
		chance += 1 / float64(len(c.whole)) / n
		share += number(right[i]) / n
	}
	return share-1.96*math.Sqrt(share*(1-share)/n) <= chance
}

// openTasks makes the choices of all tasks.
func (m *measurer) openTasks() (err error) {
	m.asked = make([][]choice, len(m.Tasks))
	for i, t := range m.Tasks {
		if m.asked[i], err = m.ask(t); err != nil {
			return err
		}
	}
	return nil
}

// taskLines are those of all tasks in a setting. Those at chance are measured at threshold 1 alone.
func (m *measurer) taskLines(answer func(task int) ([]bool, error)) (lines map[string]TaskLine, err error) {
	for i, t := range m.Tasks {
		right := m.answered[i]
		if !atChance(m.asked[i], right) {
			if right, err = answer(i); err != nil {
				return nil, err
			}
		}
		if lines == nil {
			lines = map[string]TaskLine{}
		}
		lines[t.Name] = taskLine(m.asked[i], m.answered[i], right)
	}
	return lines, nil
}
