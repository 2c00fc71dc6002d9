// Command hnsw compares the exact search of a store of expert maps with a graph of
// coder/hnsw: the processor's time of one search, and how often the graph finds the nearest map.
//
//	cd pkg/policy/expertmap/_hnsw && go run . --maps 1000,8000 --write DIR
//	python3 bench_hnswlib.py DIR        # needs numpy and hnswlib
//
// The second compares with the library of the graph's authors, on the same vectors.
//
// It is a module of its own, so that the library is in no binary.
package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math"
	mathrand "math/rand"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/coder/hnsw"

	"github.com/switchyard/switchyard/pkg/policy/expertmap"
)

// shape is that of Qwen1.5-MoE's maps.
var shape = expertmap.Shape{Layers: 24, Experts: 60, TopK: 4, Embedding: 2048}

// latent is in how many dimensions rows differ: vectors without structure have no near
// neighbours that a graph could follow.
const latent = 32

// source makes rows whose embeddings and router logits follow from few hidden values.
type source struct {
	*rand.Rand
	embedding, router [][]float32
}

func newSource(seed uint64) *source {
	s := &source{Rand: rand.New(rand.NewPCG(seed, 1))}
	s.embedding, s.router = s.matrix(shape.Embedding), s.matrix(shape.Layers*shape.Experts)
	return s
}

func (s *source) matrix(rows int) (m [][]float32) {
	for range rows {
		m = append(m, s.normal(latent))
	}
	return m
}

func (s *source) normal(n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(s.NormFloat64())
	}
	return x
}

// row is one embedding and map.
func (s *source) row() expertmap.Map {
	hidden := s.normal(latent)
	at := func(m []float32, noise float64) float32 {
		sum := noise * s.NormFloat64()
		for i, v := range m {
			sum += float64(v) * float64(hidden[i]) / math.Sqrt(latent)
		}
		return float32(sum)
	}
	one := expertmap.Map{}
	for _, m := range s.embedding {
		one.Embedding = append(one.Embedding, at(m, 0.3))
	}
	for l := range shape.Layers {
		row, sum := make([]float32, shape.Experts), float32(0)
		for e := range row {
			row[e] = float32(math.Exp(2 * float64(at(s.router[l*shape.Experts+e], 0.3))))
			sum += row[e]
		}
		for e := range row {
			row[e] /= sum
		}
		one.Probabilities = append(one.Probabilities, row...)
	}
	return one
}

// queries are how many rows are searched for.
const queries = 200

func main() {
	sizes := flag.String("maps", "1000,8000", "numbers of maps")
	wanted := flag.String("neighbours", "20,100,400", "how many neighbours the graph is asked for (it ends at the first step without a nearer one that has so many); empty: no graph")
	dir := flag.String("write", "", "folder for vectors and queries, for bench_hnswlib.py")
	held := flag.String("format", "f32", "how the store holds maps: f32, bf16 or fp8")
	flag.Parse()
	fmt.Println("| maps | search | µs | recall@1 | µs to add a map |\n|---|---|---|---|---|")
	for _, size := range strings.Split(*sizes, ",") {
		n, err := strconv.Atoi(size)
		if err != nil || n < 1 {
			fmt.Fprintf(os.Stderr, "--maps: %q is no number of maps\n", size)
			os.Exit(2)
		}
		if err := compare(n, strings.Split(*wanted, ","), *dir, expertmap.Format(*held)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

// compare measures both for n maps.
func compare(n int, wanted []string, dir string, held expertmap.Format) error {
	s := newSource(1)
	store, err := expertmap.New(expertmap.Settings{Shape: shape, Model: "qwen", Capacity: n, Distance: 3, Maps: held, Embeddings: held})
	if err != nil {
		return err
	}
	withGraph := wanted[0] != ""
	byEmbedding, byMap := graph(), graph()
	var added, embedded, mapped time.Duration
	vectors := []*file{create(dir, n, "embeddings"), create(dir, n, "maps")}
	for i := range n {
		one := s.row()
		added += took(func() { err = store.Add("a", one.Embedding, one.Probabilities) })
		if err != nil {
			return err
		}
		vectors[0].write(one.Embedding)
		vectors[1].write(one.Probabilities)
		if withGraph {
			embedded += took(func() { byEmbedding.Add(hnsw.MakeNode(i, one.Embedding)) })
			mapped += took(func() { byMap.Add(hnsw.MakeNode(i, one.Probabilities)) })
		}
	}
	asked := make([]expertmap.Map, queries)
	for i := range asked {
		asked[i] = s.row()
		vectors[0].write(asked[i].Embedding)
		vectors[1].write(asked[i].Probabilities)
	}
	if err := errors.Join(vectors[0].close(), vectors[1].close()); err != nil {
		return err
	}
	semantic, trajectory := exact(store, asked, n, added)
	for _, text := range wanted {
		if !withGraph {
			break
		}
		k, err := strconv.Atoi(text)
		if err != nil {
			return err
		}
		approximate(byEmbedding, n, k, "embeddings", semantic, embedded, func(i int) []float32 { return asked[i].Embedding })
		approximate(byMap, n, k, "whole maps", trajectory, mapped, func(i int) []float32 { return asked[i].Probabilities })
	}
	return nil
}

// file takes vectors as float32, the queries last; nil takes none.
type file struct {
	*os.File
	out *bufio.Writer
	err error
}

func create(dir string, n int, what string) *file {
	if dir == "" {
		return nil
	}
	f, err := os.Create(fmt.Sprintf("%s/%s-%d.f32", dir, what, n))
	return &file{f, bufio.NewWriter(f), err}
}

func (f *file) write(v []float32) {
	if f != nil && f.err == nil {
		f.err = binary.Write(f.out, binary.LittleEndian, v)
	}
}

func (f *file) close() error {
	if f == nil {
		return nil
	}
	if f.err != nil {
		return f.err
	}
	return errors.Join(f.out.Flush(), f.Close())
}

func graph() *hnsw.Graph[int] {
	g := hnsw.NewGraph[int]()
	g.Distance, g.M, g.EfSearch, g.Rng = hnsw.CosineDistance, 16, 100, mathrand.New(mathrand.NewSource(1)) //nolint:gosec,nolintlint // no secret
	return g
}

// took is the processor's time, which others on the machine change less than the clock's.
func took(do func()) time.Duration {
	began := processor()
	do()
	return processor() - began
}

func processor() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // it knows itself
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// exact searches the store, layer by layer, and returns what it found.
func exact(store *expertmap.Store, asked []expertmap.Map, n int, added time.Duration) (semantic, trajectory []int) {
	q := store.Begin("a")
	embedding := took(func() {
		for _, one := range asked {
			match, _ := q.Embedding(one.Embedding)
			semantic = append(semantic, match.Index)
		}
	})
	layers := took(func() {
		for _, one := range asked {
			var match expertmap.Match
			q.Reset()
			for l := 1; l <= shape.Layers; l++ {
				match, _ = q.Layer(l, one.Probabilities[(l-1)*shape.Experts:l*shape.Experts])
			}
			trajectory = append(trajectory, match.Index)
		}
	})
	fmt.Printf("| %d | exact, embeddings | %.0f | 1 | %.0f |\n", n, micros(embedding, len(asked)), micros(added, n))
	fmt.Printf("| %d | exact, a layer of the trajectory | %.0f | 1 | |\n", n, micros(layers, len(asked)*shape.Layers))
	return semantic, trajectory
}

func approximate(g *hnsw.Graph[int], n, k int, what string, want []int, added time.Duration, vector func(i int) []float32) {
	g.EfSearch = k
	hits := 0
	all := took(func() {
		for i, nearest := range want {
			if closest(g.Search(vector(i), k), vector(i)) == nearest {
				hits++
			}
		}
	})
	fmt.Printf("| %d | graph, %s, %d neighbours | %.0f | %.2f | %.0f |\n", n, what, k, micros(all, len(want)), float64(hits)/float64(len(want)), micros(added, n))
}

// closest is the key of the nearest of some nodes, or -1.
func closest(found []hnsw.Node[int], to []float32) int {
	best, distance := -1, float32(math.Inf(1))
	for _, node := range found {
		if is := hnsw.CosineDistance(node.Value, to); is < distance {
			best, distance = node.Key, is
		}
	}
	return best
}

func micros(d time.Duration, n int) float64 { return d.Seconds() * 1e6 / float64(n) }
