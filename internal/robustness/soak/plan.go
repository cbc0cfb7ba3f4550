package soak

import (
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/golocker/golocker/internal/robustness/nemesis"
	"github.com/golocker/golocker/internal/robustness/rig"
	"github.com/golocker/golocker/internal/robustness/round"
)

// Drivers are all drivers, and the mix of them for the nodes of a quorum.
var Drivers = []string{"goredis", "rueidis", "redigo", mix}

const mix = "goredis+rueidis+redigo"

// A Choice is what a run is to be about. What is empty is everything.
type Choice struct {
	Kinds   []string
	Drivers []string
	Faults  []string
}

func among(chosen []string, name string) bool {
	return len(chosen) == 0 || slices.Contains(chosen, name)
}

// works tells whether a driver can be used on a kind of deployment. The mix is of use
// only where there are several nodes to be reached, and redigo knows no Cluster.
func works(driver string, kind rig.Kind) bool {
	switch driver {
	case mix:
		return kind == rig.Quorum
	case "redigo":
		return kind != rig.Cluster
	default:
		return true
	}
}

// check returns an error for a choice of what there is not.
func (c Choice) check() error {
	var faults, kinds []string
	for _, f := range nemesis.All() {
		faults = append(faults, f.Name)
	}
	for _, k := range rig.Kinds {
		kinds = append(kinds, string(k))
	}
	for _, given := range []struct {
		what          string
		chosen, there []string
	}{{"fault", c.Faults, faults}, {"driver", c.Drivers, Drivers}, {"kind of deployment", c.Kinds, kinds}} {
		for _, name := range given.chosen {
			if !slices.Contains(given.there, name) {
				return fmt.Errorf("soak: there is no %s %q; there are %s", given.what, name, strings.Join(given.there, ", "))
			}
		}
	}
	return nil
}

// perRound is how many faults a round has at most.
const perRound = 4

// rounds returns rounds without end, by the seed: one series after the other in which each
// chosen fault meets each chosen driver, most of them wherever they can.
func (c Choice) rounds(seed uint64) iter.Seq[round.Spec] {
	r := rand.New(rand.NewPCG(seed, 0))
	return func(yield func(round.Spec) bool) {
		for {
			series := c.series(r)
			if len(series) == 0 {
				return
			}
			for _, spec := range series {
				if !yield(spec) {
					return
				}
			}
		}
	}
}

// Selection returns a few rounds in which every driver and every kind of deployment is
// used, and the seed chooses the faults.
func Selection(seed uint64) []round.Spec {
	r := rand.New(rand.NewPCG(seed, 0))
	var selection []round.Spec
	met := map[string]bool{}
	for i, pair := range []struct {
		kind   rig.Kind
		driver string
	}{
		{rig.Cluster, "goredis"}, {rig.Sentinel, "redigo"}, {rig.Quorum, mix},
		{rig.Single, "rueidis"}, {rig.Single, "goredis"}, {rig.Single, "redigo"},
	} {
		var names []string
		for _, f := range nemesis.On(pair.kind) {
			if !costly(f) {
				names = append(names, f.Name)
			}
		}
		shuffle(r, names)
		// Rather what no round before has.
		slices.SortStableFunc(names, func(a, b string) int {
			if met[a] == met[b] {
				return 0
			}
			if met[a] {
				return 1
			}
			return -1
		})
		names = names[:min(len(names), perRound-1)]
		for _, name := range names {
			met[name] = true
		}
		selection = append(selection, round.Spec{
			Load: round.Light, Kind: pair.kind, Drivers: strings.Split(pair.driver, "+"), Faults: names,
			Mixed: i%2 == 1, Seed: r.Uint64() >> 16,
		})
	}
	return selection
}

// series returns rounds in which each chosen fault is once on each chosen deployment and
// driver, unless it is costly.
func (c Choice) series(r *rand.Rand) []round.Spec {
	var greedy, series []round.Spec
	add := func(list *[]round.Spec, kind rig.Kind, driver string, faults ...string) {
		*list = append(*list, round.Spec{
			Load: round.Heavy, Kind: kind, Drivers: strings.Split(driver, "+"), Faults: faults, Mixed: r.IntN(2) == 0, Seed: r.Uint64() >> 16,
		})
	}
	kindsOf := map[string][]rig.Kind{} // where costly faults may be
	for _, driver := range Drivers {
		if !among(c.Drivers, driver) {
			continue
		}
		clear(kindsOf)
		for _, kind := range rig.Kinds {
			if !among(c.Kinds, string(kind)) || !works(driver, kind) {
				continue
			}
			var names []string
			for _, f := range nemesis.On(kind) {
				switch {
				case !among(c.Faults, f.Name):
				case costly(f):
					kindsOf[f.Name] = append(kindsOf[f.Name], kind)
				default:
					names = append(names, f.Name)
				}
			}
			shuffle(r, names)
			for faults := range slices.Chunk(names, perRound) {
				add(&series, kind, driver, slices.Clone(faults)...)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(kindsOf)) {
			list := &series
			if (round.Spec{Faults: []string{name}}).Greedy() {
				list = &greedy
			}
			add(list, kindsOf[name][r.IntN(len(kindsOf[name]))], driver, name)
		}
	}
	shuffle(r, series)
	return append(greedy, series...)
}

// costly tells whether a fault has a round of its own, and that only on one deployment
// for each driver: it needs the whole machine, or minutes.
func costly(f nemesis.Fault) bool {
	return f.Lingers > 0 || (round.Spec{Faults: []string{f.Name}}).Greedy()
}

func shuffle[T any](r *rand.Rand, list []T) {
	r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
}
