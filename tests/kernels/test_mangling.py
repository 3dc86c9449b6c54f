from __future__ import annotations

import pytest

from warpsight.kernels.mangling import base_name, display_name, normalised, unscoped_name

pytestmark = pytest.mark.unit


# Right-hand sides as binutils' c++filt words them, without return type and parameter list.
@pytest.mark.parametrize(
    ("mangled", "shown"),
    [
        ("_Z8spmv_csrPKiS0_PKfS2_Pfi", "spmv_csr"),
        ("_Z5scaleIfEvPT_", "scale<float>"),
        ("_Z5scaleIfLi3EEvPT_", "scale<float, 3>"),
        ("_Z5scaleIjLin7EEvPT_", "scale<unsigned int, -7>"),
        ("_ZN2ns3fooINS_2V3EEEvPT_S3_", "ns::foo<ns::V3>"),
        ("_ZN2ns5inner3barEi", "ns::inner::bar"),
        ("_ZN12_GLOBAL__N_13fooEPf", "(anonymous namespace)::foo"),
        ("_ZL6hiddenPf", "hidden"),
        ("_Z1fIPKfLb1ELj4EEvT_", "f<float const*, true, 4u>"),
        ("_Z1fIJidcEEvDpT_", "f<int, double, char>"),
        ("_Z1fI6matrixIfLi4EEEvT_", "f<matrix<float, 4>>"),
        ("_Z1fI6matrixS0_EvT_", "f<matrix, matrix>"),
        ("_ZN3abc1gIxEEvT_", "abc::g<long long>"),
        ("_ZN6cudapy8__main__4axpyB2v1B3abcE5ArrayIfLi1EE", "cudapy::__main__::axpy"),
        ("add_kernel", "add_kernel"),
    ],
)
def test_display_name_of_a_mangled_kernel_is_as_in_the_source(mangled: str, shown: str) -> None:
    assert display_name(mangled) == shown


@pytest.mark.parametrize("mangled", ["_Z", "_Z5abc", "_Z1fIS9_EvT_", "_Z1fIXsrE1xEvv", "_ZN2ns", "_Z0", "_Z1fILi", "_Z1fIFivEEvT_"])
def test_display_name_beyond_the_demangler_is_unchanged(mangled: str) -> None:
    assert display_name(mangled) == mangled


def test_normalised_names_are_equal_where_cxx_sees_one_type() -> None:
    assert normalised("scale<unsigned, 7>") == normalised("scale< unsigned int,7u >")
    assert normalised("f<const float*>") == normalised("f<float const *>")
    assert normalised("f<long int>") == normalised("f<long>")
    assert normalised("f<unsigned long>") != normalised("f<unsigned>")
    assert normalised("::ns::f") == "ns::f"


def test_base_name_drops_only_the_last_template_arguments() -> None:
    assert base_name("a<b<int>>::f<c<d>>") == "a<b<int>>::f"
    assert base_name("plain") == "plain"


def test_unscoped_name_drops_namespaces_but_not_those_of_template_arguments() -> None:
    assert unscoped_name("cub::detail::Sort<cub::Policy<a::b>, int>") == "Sort<cub::Policy<a::b>, int>"
    assert unscoped_name("a<b::c>::f") == "f"
    assert unscoped_name("plain") == "plain"
