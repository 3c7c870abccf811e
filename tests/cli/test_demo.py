def test_the_demo_finds_the_damage_it_does_and_mends_it(feedline):
    (facts,) = feedline("demo", "--json").lines()
    assert facts["records"] == 20_000
    assert facts["findings"] == 0
    assert facts["repair"] == {"findings": 2, "kept": 4_998}


def test_the_demo_tells_what_it_does(feedline):
    ran = feedline("demo")
    words = [line.split()[0] for line in ran.out.splitlines() if not line.startswith(" ")]
    assert words == ["wrote", "read", "verified", "damaged", "repaired"]
    assert "4,998 of 5,000 records kept" in ran.out
    assert ran.err == ""
