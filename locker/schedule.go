package locker

import "time"

// A schedule has jobs by their times, the earliest first: a timing wheel with a heap before it.
//
// Those that come next are in the heap. Those of the quarter of a minute after these lie
// in buckets, one for each slot of time and in no order, from where they go into the
// heap when their slot is next. With a hundred thousand jobs a heap of all would spend
// its time on fetching jobs from memory. Jobs that are further away are in the heap,
// too: these have to be renewed seldom.
type schedule struct {
	heap     []entry // each has four below it
	buckets  [bucketCount]*job
	bucketed int   // how many jobs are in buckets
	opened   int64 // the last slot whose jobs are in the heap
}

type entry struct {
	at  time.Duration // the job's, here too so that it need not be fetched
	job *job
}

const (
	bucketCount = 256
	slotLength  = 1 << 26 // ns
)

// Where a job is: in the heap, if its place is larger, or not.
const (
	notScheduled = 0
	inBucket     = -1
	jobOver      = -2 // not scheduled, and never again
)

func slotOf(at time.Duration) int64 { return int64(at / slotLength) }

func (s *schedule) len() int { return len(s.heap) + s.bucketed }

// put enters j, or moves it, to its time.
func (s *schedule) put(j *job, at time.Duration) {
	s.remove(j)
	j.at = at
	if slot := slotOf(at); s.opened < slot && slot <= s.opened+bucketCount {
		s.putInBucket(j)
	} else {
		s.push(j)
	}
}

// remove takes j out, if it is in.
func (s *schedule) remove(j *job) {
	switch {
	case j.place == inBucket:
		s.takeFromBucket(j)
	case j.place > notScheduled:
		i, n := int(j.place)-1, len(s.heap)-1
		last := s.heap[n]
		s.heap[n] = entry{}
		s.heap = s.heap[:n]
		if i < n {
			s.up(i, last)
			s.down(int(last.job.place)-1, last)
		}
	default:
		return
	}
	j.place = notScheduled
}

// first returns the job with the earliest time, nil if there is none.
func (s *schedule) first() *job {
	for s.bucketed > 0 {
		slot := s.opened + 1
		for s.buckets[slot%bucketCount] == nil {
			slot++
		}
		if len(s.heap) > 0 && slotOf(s.heap[0].at) < slot {
			break
		}
		s.open(slot)
	}
	if len(s.heap) == 0 {
		return nil
	}
	return s.heap[0].job
}

// passed is told that first is later than now, so that new jobs go into the buckets
// from there on.
func (s *schedule) passed(now time.Duration) { s.opened = max(s.opened, slotOf(now)) }

// open puts the jobs of the next slot into the heap.
func (s *schedule) open(slot int64) {
	s.opened = slot
	for j := s.buckets[slot%bucketCount]; j != nil; j = s.buckets[slot%bucketCount] {
		s.takeFromBucket(j)
		s.push(j)
	}
}

func (s *schedule) putInBucket(j *job) {
	head := &s.buckets[slotOf(j.at)%bucketCount]
	j.place, j.before, j.behind = inBucket, nil, *head
	if *head != nil {
		(*head).before = j
	}
	*head = j
	s.bucketed++
}

func (s *schedule) takeFromBucket(j *job) {
	if j.before != nil {
		j.before.behind = j.behind
	} else {
		s.buckets[slotOf(j.at)%bucketCount] = j.behind
	}
	if j.behind != nil {
		j.behind.before = j.before
	}
	j.before, j.behind = nil, nil
	s.bucketed--
}

func (s *schedule) push(j *job) {
	s.heap = append(s.heap, entry{})
	s.up(len(s.heap)-1, entry{j.at, j})
}

// up sets e at place i of the heap or further up.
func (s *schedule) up(i int, e entry) {
	for i > 0 {
		above := (i - 1) / 4
		if s.heap[above].at <= e.at {
			break
		}
		s.set(i, s.heap[above])
		i = above
	}
	s.set(i, e)
}

// down sets e at place i of the heap or further down.
func (s *schedule) down(i int, e entry) {
	for {
		first := 4*i + 1
		if first >= len(s.heap) {
			break
		}
		least := first
		for k := first + 1; k < min(first+4, len(s.heap)); k++ {
			if s.heap[k].at < s.heap[least].at {
				least = k
			}
		}
		if s.heap[least].at >= e.at {
			break
		}
		s.set(i, s.heap[least])
		i = least
	}
	s.set(i, e)
}

func (s *schedule) set(i int, e entry) {
	s.heap[i] = e
	e.job.place = int32(i + 1)
}

// clear takes all jobs out and returns them.
func (s *schedule) clear() []*job {
	jobs := make([]*job, 0, s.len())
	for j := s.first(); j != nil; j = s.first() {
		s.remove(j)
		jobs = append(jobs, j)
	}
	return jobs
}
