package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/mod/semver"
)

// checkReady returns an error if the release must not be made, with what to do about it.
// What takes long comes last.
func (r *release) checkReady() error {
	for _, check := range []struct {
		what string
		do   func() error
	}{
		{"the version", r.checkVersion},
		{"the checkout", r.checkCheckout},
		{"earlier releases", r.checkTags},
		{"CHANGELOG.md", r.checkChangelog},
		{"the exported API", r.checkAPI},
		{"compatibility", r.checkCompatible},
		{"all tests", r.checkTests},
	} {
		r.say("checking %s", check.what)
		if err := check.do(); err != nil {
			return err
		}
	}
	return nil
}

func (r *release) checkVersion() error {
	switch v := r.version; {
	case semver.Canonical(v) != v:
		return fmt.Errorf("%q is not a version; write it as v1.2.3 or v1.2.3-rc.1", v)
	case semver.Major(v) != "v0" && semver.Major(v) != "v1":
		return fmt.Errorf("%s needs module paths that end in /%s", v, semver.Major(v))
	}
	return nil
}

// checkCheckout wants what is on the remote's main, and nothing else.
func (r *release) checkCheckout() error {
	branch, err := r.repo.lines("git", "rev-parse", "--abbrev-ref", "HEAD")
	if err != nil {
		return err
	}
	if branch[0] != "main" {
		return fmt.Errorf("releases are made on main, and this is %s", branch[0])
	}
	dirty, err := r.repo.lines("git", "status", "--porcelain")
	if err != nil {
		return err
	}
	if len(dirty) > 0 {
		return fmt.Errorf("there are changes that are not committed:\n  %s", strings.Join(dirty, "\n  "))
	}
	head, err := r.repo.lines("git", "rev-parse", "HEAD")
	if err != nil {
		return err
	}
	theirs, err := r.repo.lines("git", "ls-remote", r.remote, "refs/heads/main")
	if err != nil {
		return err
	}
	if len(theirs) == 0 || !strings.HasPrefix(theirs[0], head[0]) {
		return fmt.Errorf("main here is not main on %s; push or pull first", r.remote)
	}
	return nil
}

// tags returns the tags of releases, here and on the remote.
func (r *release) tags() ([]string, error) {
	here, err := r.repo.lines("git", "tag", "--list")
	if err != nil {
		return nil, err
	}
	there, err := r.repo.lines("git", "ls-remote", "--tags", "--refs", r.remote)
	if err != nil {
		return nil, err
	}
	set := map[string]bool{}
	for _, line := range append(here, there...) {
		_, tag, found := strings.Cut(line, "refs/tags/")
		if !found {
			tag = line
		}
		set[tag] = true
	}
	return slices.Sorted(maps.Keys(set)), nil
}

// last returns the version of the last release and one of its tags, "" if there is none.
func (r *release) last() (version, tag string, err error) {
	tags, err := r.tags()
	if err != nil {
		return "", "", err
	}
	for _, t := range tags {
		if v := t[strings.LastIndex(t, "/")+1:]; semver.IsValid(v) && (version == "" || semver.Compare(v, version) > 0) {
			version, tag = v, t
		}
	}
	return version, tag, nil
}

func (r *release) checkTags() error {
	modules, err := load(r.repo)
	if err != nil {
		return err
	}
	tags, err := r.tags()
	if err != nil {
		return err
	}
	for _, m := range modules {
		if tag := m.tag(r.version); slices.Contains(tags, tag) {
			return fmt.Errorf("the tag %s exists; a version is released once", tag)
		}
	}
	last, _, err := r.last()
	if err != nil {
		return err
	}
	if last != "" && semver.Compare(r.version, last) <= 0 {
		return fmt.Errorf("%s is not later than %s, the last release", r.version, last)
	}
	return nil
}

var heading = regexp.MustCompile(`(?m)^## \[([^\]]+)\](.*)$`)

// checkChangelog wants a section for the version, with a date and something in it.
func (r *release) checkChangelog() error {
	text, err := os.ReadFile(filepath.Join(r.repo.folder, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	name := strings.TrimPrefix(r.version, "v")
	sections := heading.FindAllSubmatchIndex(text, -1)
	for i, s := range sections {
		if string(text[s[2]:s[3]]) != name {
			continue
		}
		if !regexp.MustCompile(`^ - \d{4}-\d\d-\d\d$`).Match(text[s[4]:s[5]]) {
			return fmt.Errorf("CHANGELOG.md: the section of %s needs a date: ## [%s] - 2026-01-31", name, name)
		}
		end := len(text)
		if i+1 < len(sections) {
			end = sections[i+1][0]
		}
		if !strings.Contains(string(text[s[1]:end]), "\n- ") {
			return fmt.Errorf("CHANGELOG.md: the section of %s says nothing", name)
		}
		return nil
	}
	return fmt.Errorf("CHANGELOG.md has no section ## [%s]; move there what is under Unreleased", name)
}

func (r *release) checkAPI() error {
	if err := r.repo.run(r.lint[0], r.lint[1:]...); err != nil {
		return fmt.Errorf("%w\nmake api, and commit the result", err)
	}
	return nil
}

// checkCompatible compares the API with that of the last release. An incompatible change
// needs a minor version before v1, and a major one after.
func (r *release) checkCompatible() error {
	last, tag, err := r.last()
	if err != nil || last == "" {
		return err
	}
	if err := r.repo.run("git", "fetch", "-q", r.remote, "refs/tags/"+tag+":refs/tags/"+tag); err != nil {
		return err
	}
	return r.repo.checkout("refs/tags/"+tag, func(old repository) error {
		broken := r.repo.run(r.compat[0], append(slices.Clone(r.compat[1:]), old.folder)...)
		if broken == nil || semver.Major(last) == "v0" && semver.MajorMinor(r.version) != semver.MajorMinor(last) {
			return nil
		}
		return fmt.Errorf("%w\nsince %s the API has changed incompatibly (see above), and %s does not say so; see docs/versioning.md", broken, last, r.version)
	})
}

func (r *release) checkTests() error {
	if err := r.repo.run(r.tests[0], r.tests[1:]...); err != nil {
		return errors.Join(errors.New("the tests have not passed"), err)
	}
	return nil
}
