"""Each test of a class `EveryExercise`, for each exercise that the class lists."""


def pytest_generate_tests(metafunc):
    if {"slug", "case"} <= set(metafunc.fixturenames):
        cases = metafunc.cls.cases
        metafunc.parametrize(("slug", "case"), cases.items(), ids=list(cases))
